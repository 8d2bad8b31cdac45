"""What others write in the tree: it is shown in bounds, and hides nothing."""

from __future__ import annotations

from typing import Any

from registrar_case import INTERVAL_S, OTHER_URL, SYSTEM, RegistrarCase, Watched
from twisted.internet.defer import fail
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from metatwist.broker.reconciling import MOST_NAMED
from metatwist.broker.registrar import CONTEST_SESSIONS
from metatwist.broker.registration_view import failed
from metatwist.coordination.errors import (
    ConnectionLost,
    NoNode,
    NotAuthorized,
    NotEmpty,
    OperationTimeout,
    TransactionFailed,
)
from tests.support.broker_parts import BrokerParts

HOSTILE = b"\x1b[2J\nmeta://evil:1" + b"\xff\xe2\x80\xae" + b"x" * 1_000_000
LONGEST = 100 + len("...")


class Guarded(Watched):
    """Does not let us read some nodes."""

    guards = "/9/master"

    def get(self, path: str) -> Any:
        """As ever, but for those."""
        if path.endswith(self.guards):
            return fail(NotAuthorized(path))
        return super().get(path)


class OthersCase(RegistrarCase):
    """The log is captured."""

    def setUp(self) -> None:
        """Nothing is registered."""
        super().setUp()
        self.events: list[LogEvent] = []
        globalLogPublisher.addObserver(self.events.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.events.append)

    def logged(self) -> list[str]:
        """Warnings and worse since the last call."""
        levels = (LogLevel.warn, LogLevel.critical)
        found = [event for event in self.events if event["log_level"] in levels]
        self.events.clear()
        return [formatEvent(event) for event in found]

    def assert_harmless(self, text: str | None, longest: int = LONGEST) -> None:
        """It is there, in one printable line that is not too long."""
        assert text is not None
        self.assertIn("meta://evil:1", text)
        self.assertTrue(text.isprintable(), text[:200])
        self.assertLessEqual(len(text), longest)


class ManyTests(OthersCase):
    """Other brokers, real or not."""

    def test_count(self) -> None:
        """The first of many are told by name, the others are counted: in status,
        warnings and metrics."""
        self.register()
        for number in range(100, 100 + 3 * MOST_NAMED):
            self.create(f"ids/{number}/master", b"meta://h:1")
        self.wait(INTERVAL_S)
        view = self.registrar.view()
        named = [str(number) for number in range(100, 100 + MOST_NAMED)]
        self.assertEqual(list(view.other_brokers), named)
        self.assertEqual(view.other_brokers_count, 3 * MOST_NAMED)
        self.assertEqual(len(view.warnings), MOST_NAMED + 1)
        self.assertIn(f"and {2 * MOST_NAMED} more brokers", view.warnings[-1])
        self.assertEqual(len(self.logged()), MOST_NAMED + 1)

    def test_told_once(self) -> None:
        """Each is logged once by its id, whatever it calls itself afterwards."""
        self.register()
        self.create("ids/9/master", b"meta://h:0")
        for number in range(5):
            self.overwrite("ids/9/master", b"meta://h:%d" % number)
            self.wait(INTERVAL_S)
            expected = {"9": f"meta://h:{number}"}
            self.assertEqual(self.registrar.view().other_brokers, expected)
        self.assertEqual(len(self.logged()), 1)

    def test_come_and_go(self) -> None:
        """Brokers that come and go without end do not fill the log."""
        self.register()
        for number in range(100, 100 + 2 * MOST_NAMED):
            self.create(f"ids/{number}/master", b"meta://h:1")
            self.wait(INTERVAL_S)
            self.assertIn(str(number), self.registrar.view().other_brokers)
            self.delete(f"ids/{number}/master")
        self.assertEqual(len(self.logged()), MOST_NAMED)

    def test_hostile(self) -> None:
        """What another one registers neither steers a terminal nor fills the log."""
        self.register()
        self.create("ids/9/master", HOSTILE)
        self.wait(INTERVAL_S)
        view = self.registrar.view()
        self.assert_harmless(view.other_brokers["9"])
        (warning,), (line,) = view.warnings, self.logged()
        self.assert_harmless(warning, 500)
        self.assert_harmless(line, 500)

    def test_not_readable(self) -> None:
        """One that may not be read is there, and keeps nothing from working."""
        self.coordinator = Guarded(self.clock)
        self.registrar = self.make_registrar(self.coordinator)
        self.create("ids/9/master", OTHER_URL)
        self.register()
        self.assert_registered()
        view = self.registrar.view()
        self.assertIsNone(view.problem)
        self.assertEqual(
            (view.other_brokers_count, list(view.other_brokers)), (1, ["9"])
        )

    def test_while_a_topic_is_refused(self) -> None:
        """A topic that cannot be registered does not hide brokers that come."""
        self.coordinator.refuses = "/t/"
        self.register()
        self.create("ids/9/master", OTHER_URL)
        self.wait(INTERVAL_S)
        view = self.registrar.view()
        self.assertEqual(view.other_brokers, {"9": OTHER_URL.decode()})
        self.assertIn("not authorized", str(view.problem))
        self.assertIsNone(view.last_pass_age_s)


class SameIdTests(OthersCase):
    """A broker with our id."""

    def test_hostile(self) -> None:
        """Whatever its address holds: status, log and the reason of the end quote it
        in bounds."""
        self.create("ids/5/master", HOSTILE)
        self.register()
        view = self.registrar.view()
        self.assert_harmless(view.duplicate)
        self.assert_harmless(view.problem, 500)
        self.wait(CONTEST_SESSIONS * 30.0)
        (failure,) = self.given_up
        self.assert_harmless(str(failure.value), 700)
        for line in self.logged():
            self.assertTrue(line.isprintable())
            self.assertLess(len(line), 500)

    def test_changing(self) -> None:
        """One that changes its address all the time is told once, and again once it
        has come back."""
        self.register()
        for _ in range(2):
            self.delete("ids/5/master")
            self.create("ids/5/master", b"meta://h:0")
            for number in range(5):
                self.overwrite("ids/5/master", b"meta://h:%d" % number)
                self.wait(INTERVAL_S)
                self.assertIn(f"meta://h:{number}", str(self.registrar.view().problem))
            lines = self.logged()
            self.assertEqual(len([line for line in lines if "is taken" in line]), 1)
            self.delete("ids/5/master")
            self.wait(INTERVAL_S)
            self.assert_registered()
            self.logged()


class RefusalTests(OthersCase):
    """Why a registration is refused, and what helps."""

    def test_junk_below(self) -> None:
        """A node that cannot be made anew, for somebody made others below it, is named
        with the command that helps."""
        self.create("topics/t/5-m", b"1", ephemeral=False)
        self.create("topics/t/5-m/junk", b"")
        self.register()
        problem = str(self.registrar.view().problem)
        self.assertIn("deleteall /meta/brokers/topics/t/5-m", problem)
        self.assertEqual(self.logged(), [problem])
        self.delete("topics/t/5-m/junk")
        self.wait(INTERVAL_S)
        self.assert_registered()
        self.assertIsNone(self.registrar.view().problem)

    def test_paths(self) -> None:
        """Paths are those of ZooKeeper's shell: with the chroot in front of each."""
        for error, path in (
            (NoNode("/meta/a"), "/app/meta/a"),
            (TransactionFailed(1, NotEmpty("/meta/a")), "/app/meta/a"),
            (TransactionFailed(1, NotEmpty("/meta/a")), "deleteall /app/meta/a"),
            (OperationTimeout("/meta/a, /meta/b"), "/app/meta/a, /app/meta/b"),
            (ConnectionLost("refused"), ": refused"),
        ):
            self.assertIn(path, failed(error, "/app"))
        self.assertNotIn("/app", failed(ConnectionLost(), "/app"))
        self.assertIn(": /meta/a", failed(NoNode("/meta/a"), ""))

    def test_credentials(self) -> None:
        """What may not be written names the file with the credentials."""
        for has_credentials, text in ((False, "is not set"), (True, "are not those")):
            found = failed(NotAuthorized("/meta"), "/app", has_credentials)
            self.assertIn("not authorized: /app/meta.", found)
            self.assertIn("zooKeeperAuthFile", found)
            self.assertIn(text, found)
        self.assertNotIn("zooKeeperAuthFile", failed(NotAuthorized("/meta"), ""))

    def test_in_status(self) -> None:
        """The problem is told with the coordinator's chroot."""
        self.parts = BrokerParts(
            self, f"{SYSTEM}[zookeeper]\nzk.zkConnect=zk:1/app\n{self.topics}"
        )
        self.clock = self.parts.clock
        self.coordinator = Watched(self.clock)
        self.coordinator.chroot = "/app"  # type: ignore[attr-defined]
        self.coordinator.refuses = "/t/"
        self.registrar = self.make_registrar(self.coordinator)
        self.register()
        self.assertIn(
            "not authorized: /app/meta/brokers/topics/t/5-m",
            str(self.registrar.view().problem),
        )
