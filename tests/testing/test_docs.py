"""What the documentation for testers shows is what happens."""

from __future__ import annotations

import re
import unittest
from pathlib import Path
from types import ModuleType

from twisted.trial.unittest import SynchronousTestCase

import metatwist.testing
from metatwist.testing import FakeBroker, FakeCluster, FakeCoordinator

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
_EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)
_CELL = re.compile(r"^\| (`[^|]*) \|", re.MULTILINE)


class ExampleTests(SynchronousTestCase):
    """The examples."""

    def test_examples(self) -> None:
        """Each example is a module with tests that pass."""
        examples = _EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(examples), 3)
        for number, example in enumerate(examples, 1):
            module = ModuleType(f"example_{number}")
            code = compile(example, f"{PAGE.name}, example {number}", "exec")
            exec(code, vars(module))
            suite = self._tests_of(module)
            self.assertGreater(suite.countTestCases(), 0, module.__name__)
            result = unittest.TestResult()
            suite.run(result)
            self.assertEqual(result.failures + result.errors, [], module.__name__)

    def _tests_of(self, module: ModuleType) -> unittest.TestSuite:
        """Those of the classes that it makes, not of those it imports."""
        load = unittest.defaultTestLoader.loadTestsFromTestCase
        own = [
            found
            for found in vars(module).values()
            if isinstance(found, type)
            and issubclass(found, unittest.TestCase)
            and found.__module__ == module.__name__
        ]
        return unittest.TestSuite(map(load, own))

    def test_names(self) -> None:
        """Each name in the tables is there to be used."""
        text = PAGE.read_text(encoding="utf-8")
        public = {*dir(FakeBroker), *dir(FakeCluster), *dir(FakeCoordinator)}
        public |= {"address", "broker_id", *metatwist.testing.__all__}
        named = {
            name
            for cell in _CELL.findall(text)
            for name in re.findall(r"`(?:coordinator\.)?(\w+)[^`]*`", cell)
        }
        self.assertGreater(len(named), 20)
        self.assertEqual(named - public, set())

    def test_all_is_told(self) -> None:
        """What a broker and a cluster offer stands on the page."""
        text = PAGE.read_text(encoding="utf-8")
        for offered in (FakeBroker, FakeCluster):
            names = [name for name in vars(offered) if not name.startswith("_")]
            missing = [name for name in names if name not in text]
            self.assertEqual(missing, [], offered.__name__)
