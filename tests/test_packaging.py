"""What is shipped: a wheel that brings the twistd plugin, templates and types along."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parent.parent
SHIPPED = ("metatwist", "templates", "twisted")
DESCRIPTION = ("LICENSE", "README.md", "pyproject.toml", "setup.py")


def run(*argv: str, cwd: Path, pythonpath: Path | None = None) -> str:
    """The output of a command of this Python; raises when it fails, output in the
    error."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.upper().startswith("METATWIST_")
    }
    if pythonpath is not None:
        kept["PYTHONPATH"] = str(pythonpath)
    done = subprocess.run(
        [sys.executable, *argv], cwd=cwd, env=kept, capture_output=True, text=True
    )
    if done.returncode:
        raise AssertionError(f"{argv} ended with {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def build_wheel(work: Path) -> Path:
    """A wheel of this tree, built in a copy of it, without network."""
    source = work / "source"
    ignored = shutil.ignore_patterns("__pycache__", "dropin.cache")
    for name in SHIPPED:
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in DESCRIPTION:
        shutil.copy(ROOT / name, source)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    run("-m", "pip", "wheel", *options, "--wheel-dir", str(work), ".", cwd=source)
    (wheel,) = work.glob("*.whl")
    return wheel


class WheelTest(SynchronousTestCase):
    """A wheel of this tree, and what it is once installed."""

    work: Path
    wheel: Path
    site: Path
    elsewhere: Path

    @classmethod
    def setUpClass(cls) -> None:
        """Build and install once for all tests."""
        cls.work = Path(tempfile.mkdtemp(prefix="metatwist-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.wheel = build_wheel(cls.work)
        cls.site = cls.work / "site"
        cls.elsewhere = cls.work / "elsewhere"
        cls.elsewhere.mkdir()
        options = ("--no-deps", "--no-index", "--quiet", "--target", str(cls.site))
        run("-m", "pip", "install", *options, str(cls.wheel), cwd=cls.elsewhere)

    def _names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as wheel:
            return set(wheel.namelist())

    def _twistd(self, *arguments: str) -> str:
        return run(
            "-c",
            "import metatwist; from twisted.scripts.twistd import run;"
            f"assert metatwist.__file__.startswith({str(self.site)!r}); run()",
            *arguments,
            cwd=self.elsewhere,
            pythonpath=self.site,
        )

    def test_contents(self) -> None:
        """It holds every module, every template, the plugin, the type marker and the
        licence, and nothing of the tests."""
        names = self._names()
        wanted = {"twisted/plugins/metaq_plugin.py", "metatwist/py.typed"}
        for path in (ROOT / "metatwist").rglob("*.py"):
            wanted.add(path.relative_to(ROOT).as_posix())
        for path in (ROOT / "templates").rglob("*.*"):
            inside = path.relative_to(ROOT / "templates").as_posix()
            wanted.add(f"metatwist/dashboard/templates/{inside}")
        self.assertEqual(set(), wanted - names)
        self.assertTrue(any(name.endswith("/LICENSE") for name in names))
        tops = {name.partition("/")[0] for name in names}
        self.assertEqual({"metatwist", "twisted"}, {t for t in tops if "." not in t})

    def test_twisted_is_not_overlaid(self) -> None:
        """It adds one file to twisted, which owns the rest of that package."""
        added = [name for name in self._names() if name.startswith("twisted/")]
        self.assertEqual(["twisted/plugins/metaq_plugin.py"], added)

    def test_twistd_finds_the_plugin(self) -> None:
        """`twistd metaq --help` works from any directory once it is installed."""
        shown = self._twistd("metaq", "--help")
        self.assertIn("A MetaQ 1.4 message broker", shown)
        self.assertIn("--check", shown)

    def test_check_without_configuration(self) -> None:
        """An installed broker accepts its own defaults."""
        shown = self._twistd("metaq", "--data", "somewhere", "--check")
        self.assertIn("the defaults: good", shown)
        self.assertFalse((self.elsewhere / "somewhere").exists())

    def test_sample_configuration(self) -> None:
        """The sample `server.ini` is right, has no warnings, and is plain ASCII."""
        sample = ROOT / "conf" / "server.ini"
        shown = self._twistd("metaq", "-f", str(sample), "--check")
        self.assertIn("good.", shown)
        self.assertNotIn("warning", shown)
        sample.read_bytes().decode("ascii")

    def test_command_is_installed(self) -> None:
        """The wheel brings the `metatwist` command."""
        with zipfile.ZipFile(self.wheel) as wheel:
            (entry,) = (n for n in wheel.namelist() if n.endswith("entry_points.txt"))
            self.assertIn(b"metatwist = metatwist.cli.main:main", wheel.read(entry))
