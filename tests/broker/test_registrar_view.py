"""What the registrar tells: to `status`, to the metrics, to the log."""

from __future__ import annotations

from registrar_case import INTERVAL_S, OTHER_URL, SYSTEM, RegistrarCase, Watched
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from tests.support.broker_parts import ADDRESS, BrokerParts


class ViewTests(RegistrarCase):
    """What `status` and the metrics show."""

    def test_registered(self) -> None:
        """Session, nodes and the age of the last pass."""
        self.register()
        self.clock.advance(3)
        view = self.registrar.view()
        self.assertEqual((view.kind, view.state), ("embedded", "connected"))
        self.assertEqual(view.session_id, f"{self.coordinator.session_id:#x}")
        self.assertEqual((view.registered_nodes, view.last_pass_age_s), (6, 3.0))
        self.assertEqual(view.warnings, [])

    def test_second_broker(self) -> None:
        """A second broker in an embedded coordinator is a warning that names the
        ensemble, until it is gone."""
        self.register()
        self.create("ids/9/master", b"meta://nine:1")
        self.create("ids/8", b"meta://stale:1", ephemeral=False)
        self.wait(INTERVAL_S)
        view = self.registrar.view()
        self.assertEqual(view.other_brokers, {"9": "meta://nine:1"})
        (warning,) = view.warnings
        self.assertIn("broker 9, meta://nine:1", warning)
        self.assertIn("coordinator=ensemble", warning)
        self.delete("ids/9/master")
        self.wait(INTERVAL_S)
        self.assertEqual(self.registrar.view().warnings, [])


class WithDisk(Watched):
    """A coordinator that says what is wrong with its disk."""

    problem: str | None = None
    damage: tuple[str, ...] = ()


class StalledCoordinatorTests(RegistrarCase):
    """The coordinator in this broker cannot store what clients write."""

    def with_disk(self, zookeeper: str) -> WithDisk:
        """Register at such a coordinator, by this section of the settings."""
        self.parts = BrokerParts(self, f"{SYSTEM}{zookeeper}{self.topics}")
        self.clock = self.parts.clock
        self.coordinator = found = WithDisk(self.clock)
        self.registrar = self.make_registrar(found)
        self.register()
        return found

    def test_damage(self) -> None:
        """Stored znodes that could not be read are a warning that tells how many."""
        self.with_disk("").damage = ("f: row /meta is no good", "f: another")
        (warning,) = self.registrar.view().warnings
        self.assertIn("2 stored znodes cannot be read", warning)
        self.assertIn("f: row /meta is no good", warning)

    def problem(self) -> str | None:
        """What `status` shows."""
        return self.registrar.view().problem

    def test_problem(self) -> None:
        """It is the problem that `status` shows, while the session lives on, and gone
        with its cause."""
        coordinator = self.with_disk("")
        self.assertIsNone(self.problem())
        coordinator.problem = "the disk is full"
        self.assertIn("the disk is full; no consumer can commit", str(self.problem()))
        self.assertEqual(self.registrar.view().state, "connected")
        coordinator.problem = None
        self.assertIsNone(self.problem())

    def test_not_registered(self) -> None:
        """Clients of the coordinator suffer from it even when this broker is not
        registered there."""
        coordinator = self.with_disk(
            "[zookeeper]\nzk.zkEnable=false\n[metatwist]\ncoordinator=embedded\n"
        )
        self.assertIsNone(self.problem())
        coordinator.problem = "the disk is full"
        self.assertIn("the disk is full", str(self.problem()))

    def test_ensemble(self) -> None:
        """Of an ensemble the state alone says whether it is there."""
        coordinator = self.with_disk("[zookeeper]\nzk.zkConnect=zk1:2181\n")
        coordinator.problem = "not connected yet"
        self.assertIsNone(self.problem())


class LogTests(RegistrarCase):
    """What is logged, and once."""

    def logged(self, *levels: LogLevel) -> list[str]:
        """What was logged at these levels since the last call."""
        found = [event for event in self.events if event["log_level"] in levels]
        self.events.clear()
        return [formatEvent(event) for event in found]

    def setUp(self) -> None:
        """Capture what is logged."""
        super().setUp()
        self.events: list[LogEvent] = []
        globalLogPublisher.addObserver(self.events.append)
        self.addCleanup(globalLogPublisher.removeObserver, self.events.append)

    def test_registered(self) -> None:
        """A registration is told once for each session."""
        for _ in range(2):
            self.register()
            self.wait(3 * INTERVAL_S)
            (line,) = self.logged(LogLevel.info)
            self.assertIn(f"registered broker 5, {ADDRESS}, topics: 1", line)

    def test_repair(self) -> None:
        """Each repair is told with its path."""
        self.register()
        self.delete("topics/t/5-m")
        self.wait(INTERVAL_S)
        (line,) = self.logged(LogLevel.warn)
        self.assertEqual(line, "repaired /meta/brokers/topics/t/5-m: missing")

    def test_unconnected(self) -> None:
        """Of its connection the coordinator tells; a registration after it is news."""
        self.register()
        self.logged(LogLevel.info)
        self.coordinator.suspend()
        self.wait(INTERVAL_S)
        self.assertEqual(self.logged(LogLevel.warn, LogLevel.critical), [])
        self.connect()
        self.turn()
        self.assertEqual(len(self.logged(LogLevel.info)), 1)

    def test_full_disk_of_the_coordinator(self) -> None:
        """While the coordinator in this broker cannot store changes, and afterwards, a
        registration that has not changed is no news; one that was lost is."""
        self.coordinator = disk = WithDisk(self.clock)
        self.registrar = self.make_registrar(disk)
        self.register()
        self.assertEqual(len(self.logged(LogLevel.info)), 1)
        disk.problem = "the disk is full"
        self.wait(3 * INTERVAL_S)
        disk.problem = None
        self.wait(3 * INTERVAL_S)
        levels = (LogLevel.info, LogLevel.warn, LogLevel.critical)
        self.assertEqual(self.logged(*levels), [])
        self.coordinator.suspend()
        self.wait(INTERVAL_S)
        self.connect()
        self.turn()
        self.assertEqual(len(self.logged(LogLevel.info)), 1)

    def test_foreign_at_first(self) -> None:
        """Waiting for another broker is told with both addresses and for how long."""
        self.create("ids/5/master", OTHER_URL)
        self.register()
        self.wait(INTERVAL_S)
        wait, taken = self.logged(LogLevel.warn)
        self.assertIn("up to 45 s", wait)
        self.assertIn(ADDRESS, taken)
        self.assertIn(OTHER_URL.decode(), taken)

    def test_foreign_later(self) -> None:
        """Losing the id to another broker is critical, and told once."""
        self.register()
        self.coordinator.open(self.realm)
        self.create("ids/5/master", OTHER_URL)
        for _ in range(3):
            self.wait(INTERVAL_S)
        (line,) = self.logged(LogLevel.critical)
        self.assertIn(OTHER_URL.decode(), line)

    def test_second_broker(self) -> None:
        """A second broker in an embedded coordinator is told once."""
        self.register()
        self.create("ids/9/master", b"meta://nine:1")
        for _ in range(3):
            self.wait(INTERVAL_S)
        (line,) = self.logged(LogLevel.warn)
        self.assertIn("meta://nine:1", line)
