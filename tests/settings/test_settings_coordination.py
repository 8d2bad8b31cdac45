"""Where clients find the broker: `[metatwist] coordinator` and what belongs to it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from settings_samples import MINIMAL, SYSTEM, load, notes, problems
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.settings import BrokerSettings, default_settings
from metatwist.broker.settings.coordination import tree_settings

WITHOUT = f"{SYSTEM}[topic=test]\n"


def own(lines: str, base: str = MINIMAL) -> str:
    """The file `base` with lines of [metatwist]."""
    return f"{base}[metatwist]\n{lines}"


class ChoiceTests(SynchronousTestCase):
    """`coordinator`."""

    def test_default(self) -> None:
        """It is the ensemble when [zookeeper] has a key, else the embedded one."""
        self.assertEqual(load(MINIMAL).coordinator, "ensemble")
        self.assertEqual(load(WITHOUT).coordinator, "embedded")
        self.assertEqual(load(WITHOUT + "[zookeeper]\n").coordinator, "embedded")
        self.assertEqual(default_settings(Path("/x"), {}).coordinator, "embedded")

    def test_given(self) -> None:
        """The choice of the file holds, whatever [zookeeper] says."""
        settings = load(own("coordinator=embedded\n"))
        self.assertEqual((settings.coordinator, settings.warnings), ("embedded", ()))

    def test_environment(self) -> None:
        """A variable chooses too."""
        environ = {"METATWIST_METATWIST_coordinator": "none"}
        self.assertEqual(load(WITHOUT, environ).coordinator, "none")

    def test_unknown_word(self) -> None:
        """Another word is refused, with the words that there are."""
        (problem,) = problems(own("coordinator=ensembl\n"))
        self.assertEqual(
            problem,
            "server.ini:12: [metatwist] coordinator: `ensembl` is not one of embedded,"
            " ensemble, none (did you mean ensemble?)",
        )

    def test_ensemble_without_servers(self) -> None:
        """An ensemble that is not named is an error that names both keys."""
        (problem,) = problems(own("coordinator=ensemble\n", WITHOUT))
        self.assertIn("[metatwist] coordinator: ensemble", problem)
        self.assertIn("[zookeeper] zk.zkConnect", problem)

    def test_unused(self) -> None:
        """A key for another coordinator than the chosen one is pointed out; so is what
        chose it, when that is no line."""
        for line, kind in {
            "coordinatorEndpoint=tcp:9": "embedded",
            "coordinatorPath=/zk": "embedded",
            "zooKeeperAcl=open": "ensemble",
        }.items():
            key = line.partition("=")[0]
            for chosen in ("embedded", "ensemble", "none"):
                text = own(f"coordinator={chosen}\n{line}\n[system]\nhostName=h\n")
                unused = f"is not used with coordinator={chosen}, only with {kind}"
                found = [note for note in notes(load(text)) if f"{key}: is" in note]
                self.assertEqual(len(found), int(kind != chosen), text)
                self.assertTrue(all(unused in note for note in found), found)
        (note,) = notes(load(own("coordinatorPath=/zk\n")))
        self.assertEqual(
            note,
            "server.ini:12: [metatwist] coordinatorPath: is not used with"
            " coordinator=ensemble, which is the default here, only with embedded",
        )

    def test_servers_beside_the_embedded_one(self) -> None:
        """Not so zk.zkConnect, on which a Java broker insists."""
        self.assertEqual(notes(load(own("coordinator=embedded\n"))), [])

    def test_none_beside_an_ensemble(self) -> None:
        """An ensemble that is not used is pointed out."""
        (note,) = notes(load(own("coordinator=none\n")))
        self.assertIn("[metatwist] coordinator: none: [zookeeper] is not used", note)
        self.assertEqual(notes(load(own("coordinator=none\n", WITHOUT))), [])


class EmbeddedTests(SynchronousTestCase):
    """The embedded coordinator's own keys."""

    def test_path(self) -> None:
        """Its database lies beside the data, unless a path is given."""
        beside = load(MINIMAL).coordinator_path
        self.assertEqual(beside, Path("/home/meta/meta.coordinator"))
        given = load(own("coordinatorPath=~/zk\n"))
        self.assertEqual(given.coordinator_path, Path("/home/meta/zk"))

    def test_path_with_nul(self) -> None:
        """A path with a NUL, that no system takes, is refused."""
        (problem,) = problems(own("coordinatorPath=/a\\u0000b\n"))
        self.assertIn("coordinatorPath: no path has a NUL in it", problem)

    def test_endpoint(self) -> None:
        """It is ZooKeeper's port on loopback by default; a wrong one is refused."""
        default = "tcp:2181:interface=127.0.0.1"
        self.assertEqual(load(MINIMAL).coordinator_endpoint, default)
        given = load(own("coordinatorEndpoint=tcp:9\n"))
        self.assertEqual(given.coordinator_endpoint, "tcp:9")
        (problem,) = problems(own("coordinatorEndpoint=tpc:9\n"))
        self.assertIn("[metatwist] coordinatorEndpoint: `tpc:9` is no server", problem)

    def test_tree(self) -> None:
        """Without [zookeeper] its defaults hold, with it its values."""
        tree = tree_settings(load(WITHOUT))
        self.assertEqual((tree.root, tree.sync_time_ms), ("/meta", 5000))
        self.assertTrue(tree.enable)
        given = own("coordinator=embedded\n[zookeeper]\nzk.zkRoot=/x\n")
        self.assertEqual(tree_settings(load(given)).root, "/x")


class AuthenticationTests(SynchronousTestCase):
    """`zooKeeperAuthFile` and `zooKeeperAcl`."""

    def setUp(self) -> None:
        """A path for a file with credentials."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "auth"

    def lines(self, more: str = "") -> str:
        """The keys of a file that names the path."""
        return own(f"zooKeeperAuthFile={self.path}\n{more}")

    def written(self, text: str | bytes, mode: int = 0o600) -> None:
        """Write the file."""
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)
        os.chmod(self.path, mode)

    def loaded(self, more: str = "") -> BrokerSettings:
        """The settings with the path and more lines."""
        return load(self.lines(more))

    def test_none(self) -> None:
        """Without the key there are no credentials and the nodes are open."""
        settings = load(MINIMAL)
        self.assertIsNone(settings.zookeeper_auth)
        self.assertEqual(settings.zookeeper_acl, "open")

    def test_read(self) -> None:
        """The line is read, and neither the file's text nor `repr` shows it."""
        self.written("digest:meta:so:secret\n")
        settings = self.loaded("zooKeeperAcl=creator\n")
        self.assertEqual(settings.zookeeper_auth, "digest:meta:so:secret")
        self.assertEqual(settings.zookeeper_acl, "creator")
        self.assertEqual(settings.warnings, ())
        self.assertNotIn("so:secret", repr(settings))
        self.assertNotIn(b"so:secret", settings.text)

    def test_readable_by_all(self) -> None:
        """A file that everybody can read is pointed out."""
        self.written("digest:meta:secret", 0o644)
        (note,) = notes(self.loaded())
        self.assertIn(f"everybody can read {self.path}", note)

    def test_missing(self) -> None:
        """A file that is not there is an error."""
        (problem,) = problems(self.lines())
        self.assertIn(f"{self.path} cannot be read: No such file", problem)

    def test_malformed(self) -> None:
        """Anything but one line of the form is an error that does not quote it."""
        for text in (
            b"",
            b"meta:geheim",
            b"sasl:meta:geheim",
            b"digest:geheim",
            b"digest::geheim",
            b"digest:meta:",
            b"digest:meta:geheim\ndigest:a:b",
            b"digest:meta:\xff",
        ):
            self.written(text)
            (problem,) = problems(self.lines())
            self.assertIn(f"zooKeeperAuthFile: {self.path} ", problem)
            self.assertNotIn("geheim", problem)

    def test_creator_needs_credentials(self) -> None:
        """Protecting nodes for nobody is an error that names both keys."""
        (problem,) = problems(own("zooKeeperAcl=creator\n"))
        self.assertIn("[metatwist] zooKeeperAcl: creator", problem)
        self.assertIn("zooKeeperAuthFile", problem)

    def test_unused(self) -> None:
        """Credentials without an ensemble are pointed out."""
        self.written("digest:meta:secret")
        (note,) = notes(self.loaded("coordinator=embedded\n"))
        self.assertIn("zooKeeperAuthFile: is not used with coordinator=embedded", note)
