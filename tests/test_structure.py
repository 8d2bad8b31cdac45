"""The shape of the code: who may import what, how large things may get, what must be
documented. Every rule stands on its own sample too, so that none can go blind."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests import structure_rules as rules
from tests.structure_rules import PACKAGE, ROOT, Module, Rule, modules_below

FORBIDDEN_TEXT = re.compile(
    r"(?<![\w.>}])/(?:work|root)\b|\bshared/|helper session"
    r"|pypi\.org|pythonhosted|repo1?\.maven|maven\.org|debian\.org|npmjs\.|crates\.io",
    re.IGNORECASE,
)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME)\b")


LONG = "".join(f"    x{line} = 0\n" for line in range(rules.MOST_FUNCTION_LINES))
DOC = '"""D."""\n'
SAMPLES: tuple[tuple[Rule, str, str], ...] = (
    (rules.impure_wire, "metatwist.wire.reader", "import socket"),
    (rules.impure_wire, "metatwist.wire.reader", "from os import path"),
    (rules.impure_wire, "metatwist.wire.reader", "from metatwist.broker import puts"),
    (rules.impure_wire, "metatwist.wire.reader", "import attrs"),
    (rules.impure_storage, "metatwist.broker.storage.scan", "from time import time"),
    (
        rules.impure_storage,
        "metatwist.broker.storage.scan",
        "from twisted import logger",
    ),
    (rules.impure_storage, "metatwist.broker.storage.scan", "import os"),
    (rules.impure_storage, "metatwist.broker.storage.scan", "open('x')"),
    (rules.impure_storage, "metatwist.broker.storage.scan", "p.read_bytes()"),
    (
        rules.impure_storage,
        "metatwist.broker.storage.files",
        "import metatwist.broker.puts",
    ),
    (rules.impure_base, "metatwist.errors", "import attrs"),
    (rules.crossed_layers, "metatwist.client.producer", "import metatwist.broker.puts"),
    (
        rules.crossed_layers,
        "metatwist.dashboard.app",
        "import metatwist.broker.storage",
    ),
    (
        rules.crossed_layers,
        "metatwist.cli.main",
        "def f():\n    import twisted.internet",
    ),
    (rules.crossed_layers, "metatwist.broker.puts", "import metatwist.cli.main"),
    (rules.crossed_layers, "metatwist.cli.x", "from metatwist.tools import running"),
    (rules.crossed_layers, "metatwist.cli.x", "import metatwist.client.client"),
    (rules.crossed_layers, "metatwist.tools.lines", "import metatwist.broker.puts"),
    (rules.crossed_layers, "metatwist.tools.lines", "import metatwist.cli.main"),
    (rules.stray_threads, "metatwist.broker.puts", "from threading import Lock"),
    (rules.stray_threads, "metatwist.broker.puts", "import twisted.internet.threads"),
    (
        rules.stray_reactor,
        "metatwist.broker.tap",
        "from twisted.internet import reactor",
    ),
    (
        rules.stray_reactor,
        "metatwist.broker.puts",
        "def f():\n    from twisted.internet import reactor",
    ),
    (rules.too_long, "m", "x = 0\n" * (rules.MOST_MODULE_LINES + 1)),
    (rules.too_long, "m", f"def f():\n{LONG}"),
    (rules.too_many_parameters, "m", "def f(a, b, c, /, d, e, *, f, g): ..."),
    (rules.undocumented, "m", "x = 0"),
    (rules.undocumented, "m", f"{DOC}class A:\n    pass"),
    (rules.swallowed, "m", "try:\n    f()\nexcept:\n    pass"),
    (rules.swallowed, "m", "try:\n    f()\nexcept (OSError, Exception):\n    pass"),
)


def breaches(rule: Rule, modules: list[Module]) -> list[str]:
    """`module: what` for each breach of a rule."""
    return sorted(f"{one.name}: {what}" for one in modules for what in rule(one))


def text_files() -> list[Path]:
    """The files of the project that git tracks or would, this one aside; all source
    and text files where there is no git."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    names = listing.stdout.decode().split("\0") if not listing.returncode else []
    paths = [ROOT / name for name in names if name] or [
        path
        for folder in ("metatwist", "tests", "docs", "bench", "conf", "twisted")
        for path in (ROOT / folder).rglob("*")
        if "build" not in path.parts
    ]
    return [path for path in paths if path.is_file() and path != Path(__file__)]


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """`file:line: text` of each line that matches; binary files are passed over."""
    found = []
    for path in text_files():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").split("\n")):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number + 1}: {line.strip()}")
    return found


class LayersTest(SynchronousTestCase):
    """Imports go one way."""

    def _check(self, *rules: Rule) -> None:
        for rule in rules:
            self.assertEqual([], breaches(rule, PACKAGE), rule.__doc__)

    def test_rules_hold(self) -> None:
        """Wire, storage and values are pure; no package knows one that it must not."""
        self._check(
            rules.impure_wire,
            rules.impure_storage,
            rules.impure_base,
            rules.crossed_layers,
        )

    def test_threads_and_reactor(self) -> None:
        """Threads and the reactor are reached where they are listed, nowhere else."""
        self._check(rules.stray_threads, rules.stray_reactor)

    def test_nothing_pure_brings_twisted_in(self) -> None:
        """Wire, storage and the command line load no twisted by way of others."""
        pure = ("metatwist.wire", "metatwist.broker.storage", "metatwist.cli")
        starts = [module for module in PACKAGE if rules.within(module.name, pure)]
        guilty = {
            f"{start.name} by {name}"
            for start in starts
            for name in rules.reached_from(start)
            if rules.BY_NAME[name].imports_from("twisted")
        }
        self.assertEqual(set(), guilty)
        self.assertGreater(len(starts), 20)

    def test_plugin_folder_is_shared(self) -> None:
        """No `__init__.py` of ours hides twisted or the plugins of others."""
        found = list((ROOT / "twisted").rglob("__init__.py"))
        self.assertEqual([], found)

    def test_listed_modules_exist(self) -> None:
        """Lists of exceptions name modules that are there and need the exception."""
        for name in sorted(
            rules.THREAD_MODULES | rules.FILE_MODULES | rules.OUTER_EDGES
        ):
            self.assertIn(name, rules.BY_NAME)


class ShapeTest(SynchronousTestCase):
    """Sizes, documentation, words."""

    def test_sizes(self) -> None:
        """Modules, functions and parameter lists stay within the limits."""
        code = [*PACKAGE, *modules_below("bench")]
        self.assertEqual([], breaches(rules.too_long, code))
        self.assertEqual([], breaches(rules.too_many_parameters, code))

    def test_documented(self) -> None:
        """Each module and public class has a docstring."""
        code = [*PACKAGE, *modules_below("bench", "tests")]
        self.assertEqual([], breaches(rules.undocumented, code))

    def test_nothing_is_swallowed(self) -> None:
        """There is no bare `except`, and a wide one only at the outer edges."""
        self.assertEqual([], breaches(rules.swallowed, PACKAGE))

    def test_tests_state_what_is_true(self) -> None:
        """Each test says in its docstring what holds."""
        silent = [
            f"{module.name}: {function.name}"
            for module in modules_below("tests")
            for function in module.functions
            if function.name.startswith("test_") and not ast.get_docstring(function)
        ]
        self.assertEqual([], silent)

    def test_nothing_is_left_unfinished(self) -> None:
        """No file says that something is still to be done."""
        self.assertEqual([], lines_with(UNFINISHED))

    def test_no_place_is_named(self) -> None:
        """No file names a path of some machine or a package host."""
        self.assertEqual([], lines_with(FORBIDDEN_TEXT))


class DocumentsTest(SynchronousTestCase):
    """What is written beside the code."""

    def test_links_lead_somewhere(self) -> None:
        """Each relative link of a document names a file that is there."""
        link = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
        broken = [
            f"{path.relative_to(ROOT)}: {target}"
            for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
            for target in link.findall(path.read_text(encoding="utf-8"))
            if "://" not in target and not (path.parent / target).exists()
        ]
        self.assertEqual([], broken)

    def test_index_is_complete(self) -> None:
        """The index of the documentation leads to every document."""
        index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
        missing = [
            path.name
            for path in sorted((ROOT / "docs").glob("*.md"))
            if path.name != "index.md" and f"({path.name}" not in index
        ]
        self.assertEqual([], missing)


class RulesTest(SynchronousTestCase):
    """The rules see what they are for."""

    def test_each_rule_finds_its_samples(self) -> None:
        """A sample of each kind of breach is reported."""
        for rule, name, text in SAMPLES:
            module = Module.of(name, text)
            self.assertTrue(list(rule(module)), f"{rule.__name__} passes {text!r}")
        self.assertEqual(set(rules.RULES), {rule for rule, _, _ in SAMPLES})

    def test_words_are_found(self) -> None:
        """The patterns for words match such words, and not their neighbours."""
        for text in ("see /work/x", "'/root'", "in shared/spec", "https://pypi.org/"):
            self.assertRegex(text, FORBIDDEN_TEXT)
        for text in ("<root>/root", "a/worker", "/workers", "framework/work"):
            self.assertNotRegex(text, FORBIDDEN_TEXT)
