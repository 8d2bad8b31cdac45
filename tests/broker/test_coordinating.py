"""Which coordinator the settings make, and how a broker leaves it."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from registrar_case import RegistrarCase
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker import coordinating
from metatwist.broker.coordinating import Coordination, ensemble_settings, leave
from metatwist.broker.settings import BrokerSettings
from metatwist.coordination.ensemble import EnsembleCoordinator
from metatwist.coordination.interface import SessionState
from tests.support.broker_parts import INI, BrokerParts


class ChoiceTests(SynchronousTestCase):
    """`Coordination`."""

    def settings(self, **metatwist: str) -> BrokerSettings:
        """Settings with an ensemble and these keys of [metatwist]."""
        keys = "".join(f"{key}={value}\n" for key, value in metatwist.items())
        zookeeper = (
            "[zookeeper]\nzk.zkConnect=a:1,b:2/c\nzk.zkSessionTimeoutMs=4000\n"
            "zk.zkConnectionTimeoutMs=3000\n"
        )
        return BrokerParts(self, f"{INI}{zookeeper}[metatwist]\n{keys}").settings

    def test_none(self) -> None:
        """Without coordination starting and stopping it is nothing."""
        found = Coordination(Clock(), self.settings(coordinator="none"))
        self.assertIsNone(found.coordinator)
        self.successResultOf(found.start())
        self.successResultOf(found.stop())

    def test_embedded(self) -> None:
        """The embedded one has its directory and port from the settings."""
        settings = self.settings(
            coordinator="embedded",
            coordinatorEndpoint="tcp:7:interface=127.0.0.1",
        )
        found = Coordination(Clock(), settings)
        assert found.embedded is not None
        self.assertIs(found.coordinator, found.embedded)
        self.assertIn("tcp:7:interface=127.0.0.1", found.embedded.description)
        self.assertFalse(settings.coordinator_path.exists())

    def started(self, limit: int) -> tuple[int, list[str]]:
        """With that limit of open files: the coordinator's connections at most, and
        what was logged."""
        found = Coordination(Clock(), self.settings(coordinator="embedded"))
        assert found.embedded is not None
        self.patch(found.embedded, "startService", lambda: None)
        self.patch(coordinating, "raise_limit", lambda: limit)
        self.patch(coordinating, "has_lanes", lambda: False)
        with capturedLogs() as captured:
            found.start()
        return found.embedded.max_connections, [formatEvent(one) for one in captured]

    def test_room(self) -> None:
        """The embedded one's connections leave files to the others; few are told."""
        self.assertEqual(self.started(1 << 20), (10_000, []))
        self.assertEqual(self.started(4576), (1000, []))
        room, (line,) = self.started(1024)
        self.assertEqual(room, 112)
        for part in ("room for 112 connections to the coordinator", "1024", "512"):
            self.assertIn(part, line)

    def test_ensemble(self) -> None:
        """The ensemble is that of [zookeeper]."""
        settings = self.settings()
        found = Coordination(Clock(), settings)
        self.assertIsInstance(found.coordinator, EnsembleCoordinator)
        self.assertIsNone(found.embedded)
        wanted = ensemble_settings(settings)
        self.assertEqual(str(wanted.target), "a:1,b:2/c")
        times = (wanted.session_timeout_s, wanted.connection_timeout_s)
        self.assertEqual(times, (4.0, 3.0))
        self.assertEqual((wanted.credentials, wanted.acl), (None, "open"))

    def test_credentials(self) -> None:
        """Credentials are scheme and secret, the secret with all its colons."""
        settings = evolve(
            self.settings(), zookeeper_auth="digest:me:a:b", zookeeper_acl="creator"
        )
        wanted = ensemble_settings(settings)
        self.assertEqual(wanted.credentials, ("digest", "me:a:b"))
        self.assertEqual(wanted.acl, "creator")

    def test_stop_that_fails(self) -> None:
        """A coordinator that fails to stop is logged: the broker's stop goes on."""
        found = Coordination(Clock(), self.settings())
        coordinator: Any = found.coordinator
        self.patch(coordinator, "startService", lambda: None)
        self.patch(coordinator, "stopService", lambda: fail(ZeroDivisionError()))
        self.successResultOf(found.start())
        self.successResultOf(found.stop())
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_stop_without_start(self) -> None:
        """What was never started is not stopped."""
        found = Coordination(Clock(), self.settings())
        self.successResultOf(found.stop())
        assert found.coordinator is not None
        self.assertEqual(found.coordinator.state, SessionState.CONNECTING)


class LeaveTests(RegistrarCase):
    """Between withdrawing and closing the port."""

    def leave(self) -> Deferred[Any]:
        """Leave, after a turn."""
        leaving = leave(self.clock, self.registrar, self.parts.factory)
        self.turn()
        return leaving

    def test_nobody_connected(self) -> None:
        """Without a connection there is nobody to wait for."""
        self.register()
        self.successResultOf(self.leave())
        self.assertIsNone(self.data("ids/5/master"))

    def test_hurry(self) -> None:
        """Who is asked to hurry does not wait for clients."""
        self.register()
        self.parts.connect()
        asked: list[bool] = []
        leaving = leave(
            self.clock, self.registrar, self.parts.factory, lambda: bool(asked)
        )
        self.wait(1)
        self.assertNoResult(leaving)
        asked.append(True)
        self.wait(1)
        self.successResultOf(leaving)

    def test_sync_time(self) -> None:
        """Clients are given the sync time, with the nodes gone."""
        self.register()
        self.parts.connect()
        leaving = self.leave()
        self.assertIsNone(self.data("ids/5/master"))
        self.clock.pump([0.05] * 99)
        self.assertNoResult(leaving)
        self.clock.pump([0.05] * 2)
        self.successResultOf(leaving)

    def test_last_one_leaves(self) -> None:
        """The wait is over once the last client has left."""
        self.register()
        first, second = self.parts.connect(), self.parts.connect()
        leaving = self.leave()
        first.lost()
        self.wait(1)
        self.assertNoResult(leaving)
        second.lost()
        self.wait(1)
        self.successResultOf(leaving)

    def test_not_registered(self) -> None:
        """Who was not registered has nobody to tell."""
        self.parts.connect()
        self.registrar.startService()
        self.turn()
        self.successResultOf(self.leave())
