"""Filters of consumer groups: loading, faults, reloading, what is said about them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.filters import FilterFailed, Filters, accepted_run
from metatwist.wire.records import encode, join_payload
from tests.support.broker_parts import INI, BrokerParts

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


class FilterCase(SynchronousTestCase):
    """A folder of filters, and groups of topic `test` that are given them."""

    def setUp(self) -> None:
        """What the import system remembers of the folder goes with the test."""
        self.now_s = 100.0
        before, path = set(sys.modules), list(sys.path)

        def tidy() -> None:
            sys.path[:] = path
            for name in set(sys.modules) - before:
                del sys.modules[name]

        self.addCleanup(tidy)

    def filters(
        self, module: str | None, folder: str | None = None, **groups: str
    ) -> Filters:
        """Filters of `groups` with the text of `ours.py`; none makes no folder."""
        lines = "".join(f"group.{group}={name}\n" for group, name in groups.items())
        ini = INI.replace("[topic=lazy]", f"{lines}[topic=lazy]")
        self.parts = BrokerParts(self, ini)
        self.folder = self.parts.filter_dir if folder is None else Path(folder)
        if module is not None:
            self.write(module)
        return Filters(self.parts.topics, self.folder, lambda: self.now_s)

    def write(self, module: str) -> None:
        """The text of `ours.py`."""
        (self.folder / "ours.py").write_text(module)

    def verdict(self, filters: Filters, group: str = "g", body: bytes = b"x") -> bool:
        """Whether the group is given a record."""
        accept = filters.find("test", group)
        assert accept is not None
        flag, payload = join_payload("tag", body)
        return accepted_run(encode(1, flag, payload), group, accept).accepted > 0

    def logged(self, call: Callable[[], object]) -> list[LogEvent]:
        """The events that are logged meanwhile."""
        events: list[LogEvent] = []
        globalLogPublisher.addObserver(events.append)
        try:
            call()
        finally:
            globalLogPublisher.removeObserver(events.append)
        return events


class FaultTests(FilterCase):
    """Filters that fail."""

    def test_exit_while_loading(self) -> None:
        """A module that ends the process at import cannot be loaded, no more."""
        filters = self.filters("import sys\nsys.exit(3)\n", g="ours.accept")
        error = self.assertRaises(FilterFailed, filters.find, "test", "g")
        self.assertIn("SystemExit(3)", str(error))

    def test_exit_at_a_record(self) -> None:
        """A filter that calls sys.exit has not accepted."""
        text = "import sys\ndef accept(group, record):\n    sys.exit()\n"
        self.assertFalse(self.verdict(self.filters(text, g="ours.accept")))
        self.assertEqual(len(self.flushLoggedErrors(SystemExit)), 1)

    def test_told_once_a_minute(self) -> None:
        """The first fault has a traceback; later ones are counted, and told at most
        once a minute, for each filter by itself."""
        text = "def a(group, record):\n    1 / 0\ndef b(group, record):\n    1 / 0\n"
        filters = self.filters(text, g="ours.a", h="ours.b")
        for _ in range(50):
            self.assertFalse(self.verdict(filters))
        self.assertFalse(self.verdict(filters, "h"))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        self.now_s += 60
        for expected in (["50 more times"], []):
            events = self.logged(lambda: self.verdict(filters))
            self.assertEqual(len(events), len(expected))
            for event, text in zip(events, expected, strict=True):
                self.assertIn(text, formatEvent(event))


class CheckTests(FilterCase):
    """What is said about filters before they are needed."""

    def test_each_that_cannot_be_loaded(self) -> None:
        """Topic, group, name and reason of each are named; good ones are not."""
        filters = self.filters(
            "def good(group, record):\n    return True\nnumber = 5\n",
            a="ours.good",
            b="ours.number",
            c="ours.missing",
            d="no_such.module",
        )
        told = filters.check()
        self.assertEqual(len(told), 3)
        for sentence, group, name, reason in zip(
            told,
            "bcd",
            ("ours.number", "ours.missing", "no_such.module"),
            ("not callable", "AttributeError", "No module named"),
            strict=True,
        ):
            self.assertTrue(sentence.startswith(f"topic test, group {group}: "))
            self.assertIn(name, sentence)
            self.assertIn(reason, sentence)

    def test_no_folder(self) -> None:
        """Filters without a folder are ignored, but not in silence."""
        filters = self.filters(None, "/nowhere", g="ours.accept")
        (sentence,) = filters.check()
        self.assertIn("every group gets everything", sentence)
        self.assertIn("/nowhere is no directory", sentence)
        self.assertIsNone(filters.find("test", "g"))

    def test_nothing_to_say(self) -> None:
        """Without filters a missing folder is nothing to talk about."""
        self.assertEqual(self.filters(None, "/nowhere").check(), [])


class ReloadTests(FilterCase):
    """`forget`."""

    def test_edited_module(self) -> None:
        """An edited module holds from a reload on, and not before; so does what it
        imports from the folder."""
        filters = self.filters("from helper import accept\n", g="ours.accept")
        text = "def accept(group, record):\n    return {}\n"
        helper = self.folder / "helper.py"
        helper.write_text(text.format(True))
        self.assertTrue(self.verdict(filters))
        helper.write_text(text.format(None))
        self.assertTrue(self.verdict(filters))
        filters.forget()
        self.assertFalse(self.verdict(filters))

    def test_other_modules_stay(self) -> None:
        """Modules from elsewhere are not loaded twice."""
        text = "import json\ndef accept(group, record):\n    return True\n"
        filters = self.filters(text, g="ours.accept")
        self.assertEqual(filters.check(), [])
        before = sys.modules["json"], sys.modules["ours"]
        filters.forget()
        self.assertIs(sys.modules["json"], before[0])
        self.assertNotIn("ours", sys.modules)

    def test_folder_gone(self) -> None:
        """A folder that vanishes does not lift the filters: gets fail."""
        text = "def accept(group, record):\n    return True\n"
        filters = self.filters(text, g="ours.accept")
        (self.folder / "ours.py").unlink()
        self.folder.rmdir()
        filters.forget()
        self.assertRaises(FilterFailed, filters.find, "test", "g")

    def test_folder_made_later(self) -> None:
        """A folder that was made after the start is used from a reload on."""
        filters = self.filters(None, g="ours.accept")
        self.folder.rmdir()
        filters = Filters(self.parts.topics, self.folder)
        self.assertIsNone(filters.find("test", "g"))
        self.folder.mkdir()
        self.write("def accept(group, record):\n    return True\n")
        filters.forget()
        self.assertEqual(filters.check(), [])
        self.assertTrue(self.verdict(filters))


class PageTests(FilterCase):
    """docs/configuration.md."""

    def test_example(self) -> None:
        """The filters that the page shows do what it says."""
        page = PAGE.read_text(encoding="utf-8")
        code = re.search(r"```python\n# provided/orders\.py\n(.*?)```", page, re.DOTALL)
        assert code is not None
        (self_named,) = re.findall(r"^group\.billing=(.+)$", page, re.MULTILINE)
        (other,) = re.findall(r"^group\.audit=(.+)$", page, re.MULTILINE)
        filters = self.filters(None, billing=self_named, audit=other)
        (self.folder / "orders.py").write_text(code[1])
        self.assertEqual(filters.check(), [])
        self.assertTrue(self.verdict(filters, "billing", b"PAID 7"))
        self.assertFalse(self.verdict(filters, "billing", b"OPEN 7"))
        self.assertTrue(self.verdict(filters, "audit", b"1234"))
        self.assertFalse(self.verdict(filters, "audit", b"123456789"))
