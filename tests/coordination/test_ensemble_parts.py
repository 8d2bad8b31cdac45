"""What the ensemble's coordinator is made of: settings, values, outage, handler."""

from __future__ import annotations

import socket
from typing import Any

from attrs import evolve
from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    ConnectionClosedError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.security import OPEN_ACL_UNSAFE
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination import errors
from metatwist.coordination.ensemble_outage import LONGEST_INTERVAL_S, Outage
from metatwist.coordination.ensemble_settings import EnsembleSettings, parse_connect
from metatwist.coordination.interface import Check, Create, Delete, SetData
from metatwist.coordination.kazoo_handler import ReactorHandler, ShuffledServers
from metatwist.coordination.kazoo_values import (
    acl_for,
    error_from,
    fill_transaction,
    results_from,
)

from .kazoo_fakes import on_thread, stat


class SettingsTest(SynchronousTestCase):
    """Connect strings and the rest."""

    def test_connect_strings(self) -> None:
        """Hosts, ports, IPv6 addresses and a chroot are understood."""
        samples = {
            "zk": "zk:2181",
            "a:1,b:2": "a:1,b:2",
            " a:1 , b , ": "a:1,b:2181",
            "a/": "a:2181",
            "a:1,b:2/x/y/": "a:1,b:2/x/y",
            "[::1]:99,[fe80::1%eth0]": "[::1]:99,[fe80::1%eth0]:2181",
            "my_host-1.example:1": "my_host-1.example:1",
        }
        for text, expected in samples.items():
            self.assertEqual(expected, str(parse_connect(text)))
            again = KazooClient(expected)
            self.assertEqual(len(parse_connect(text).servers), len(again.hosts))
            self.assertEqual(parse_connect(text).chroot, again.chroot)

    def test_wrong_connect_strings(self) -> None:
        """What is malformed is refused with the part in question."""
        for text, part in {
            "": "names no host",
            "/chroot": "names no host",
            "a:b": "port",
            "a:0": "port",
            "a:65536": "port",
            "a:²": "port",
            "a:": "port",
            ":2181": "':2181'",
            "u@a:1": "'u@a:1'",
            "::1": "brackets",
            "[::1:2": "'[::1:2'",
            "[::1]2": "'[::1]2'",
            "a//x": "chroot",
            "a/x/../y": "chroot",
        }.items():
            with self.assertRaises(ValueError) as caught:
                EnsembleSettings(text)
            self.assertIn(part, str(caught.exception))

    def test_other_values(self) -> None:
        """Values that cannot work are refused, and secrets are not shown."""
        good = EnsembleSettings("a", credentials=("digest", "u:secret"), acl="creator")
        self.assertNotIn("secret", repr(good))
        wrong: list[dict[str, Any]] = [
            {"credentials": None},
            {"acl": "closed"},
            {"session_timeout_s": 0},
            {"connection_timeout_s": -1},
            {"credentials": ("sasl", "u:p")},
        ]
        for keys in wrong:
            self.assertRaises(ValueError, evolve, good, **keys)


class ValuesTest(SynchronousTestCase):
    """Errors, ACLs, transactions."""

    def test_errors(self) -> None:
        """Every error of kazoo's with one of our codes becomes that, others keep
        theirs; nothing is swallowed."""
        for code, kind in list(EXCEPTIONS.items()):
            error = error_from(kind(), "/a")
            own = [one for one in _kinds() if one.code == code and code != -1]
            if code not in (0, -2) and kind is not ConnectionClosedError:
                self.assertEqual(code, error.code)
                self.assertIs(type(error), own[0] if own else errors.CoordinationError)
            self.assertIn("/a", str(error))
        self.assertIsInstance(error_from(RolledBackError(), ""), errors.RolledBack)
        closed = error_from(ConnectionClosedError("x"), "")
        self.assertIsInstance(closed, errors.ConnectionLost)
        self.assertIn("xids", str(error_from(RuntimeError("xids differ"), "/a")))

    def test_acls(self) -> None:
        """Under creator the world may do what clients without credentials need."""
        self.assertIs(OPEN_ACL_UNSAFE, acl_for("open", Create("/a")))
        for node, world in (
            (Create("/a", b"", ephemeral=True), ["READ"]),
            (Create("/a", None, ephemeral=True), ["READ"]),
            (Create("/a"), ["READ", "CREATE"]),
            (Create("/a", b""), ["READ", "WRITE"]),
        ):
            mine, others = acl_for("creator", node)
            self.assertEqual((["ALL"], "auth"), (mine.acl_list, mine.id.scheme))
            self.assertEqual((world, "world"), (others.acl_list, others.id.scheme))

    def test_transactions(self) -> None:
        """Operations reach kazoo with null data, versions, flags and ACLs."""
        client = KazooClient("zk/chroot")
        transaction = client.transaction()
        operations = [
            Create("/a", ephemeral=True),
            Create("/s/", b"x", sequence=True),
            SetData("/a", None, 3),
            Delete("/a", 4),
            Check("/a", 5),
        ]
        fill_transaction(transaction, operations, "creator")
        first, second, third, *rest = transaction.operations
        self.assertEqual(("/chroot/a", None, 1), (first.path, first.data, first.flags))
        self.assertEqual((b"x", 2, 2), (second.data, second.flags, len(second.acl)))
        self.assertEqual((None, 3), (third.data, third.version))
        self.assertEqual([4, 5], [one.version for one in rest])

    def test_results(self) -> None:
        """The guilty operation is named, not those that went down with it."""
        operations = [Create("/a"), SetData("/b", b""), Delete("/c"), Check("/d")]
        done = results_from(operations, ["/a", stat(version=4), True, True])
        self.assertEqual(["/a", None, None], [done[0], *done[2:]])
        self.assertEqual(4, done[1].version)  # type: ignore[attr-defined]
        failed = [RolledBackError(), NoNodeError(), RuntimeInconsistency()]
        with self.assertRaises(errors.TransactionFailed) as caught:
            results_from(operations[:3], failed)
        self.assertEqual(1, caught.exception.index)
        self.assertIsInstance(caught.exception.cause, errors.NoNode)


def _kinds() -> list[type[errors.CoordinationError]]:
    return errors.CoordinationError.__subclasses__()


class OutageTest(SynchronousTestCase):
    """What people read."""

    def setUp(self) -> None:
        """Nothing wrong yet."""
        self.clock = Clock()
        self.outage = Outage(self.clock, "a,b")

    def test_problem(self) -> None:
        """The problem has the reason and the latest trouble of each server."""
        self.assertIsNone(self.outage.problem)
        self.outage.begin("connection lost")
        self.assertEqual("connection lost", self.outage.problem)
        self.outage.trouble("a:1", "refused")
        self.outage.trouble("b:1", "silent")
        self.outage.trouble("a:1", "closed")
        expected = "connection lost: b:1: silent; a:1: closed"
        self.assertEqual(expected, self.outage.problem)
        self.outage.over("b:1", 5)
        self.assertIsNone(self.outage.problem)
        self.outage.begin("connection lost")
        self.assertEqual("connection lost", self.outage.problem)

    def test_since(self) -> None:
        """It lasts from the first reason on."""
        self.clock.advance(5)
        self.outage.begin("connection lost")
        self.clock.advance(5)
        self.outage.begin("session expired")
        self.assertEqual(5, self.outage.since_s)
        self.outage.over("a", 1)
        self.assertIsNone(self.outage.since_s)

    def test_log(self) -> None:
        """The first trouble is logged at once, others ever more seldom, the end too."""
        with capturedLogs() as events:
            self.outage.begin("not connected yet", is_news=False)
            times = []
            for second in range(4000):
                before = len(events)
                self.outage.trouble("a:1", "refused")
                if len(events) > before:
                    times.append(second)
                self.clock.advance(1)
            self.outage.over("a:1", -1)
        self.assertEqual([0, 10, 30, 70, 150, 310, 630, 1230], times[:8])
        self.assertEqual(LONGEST_INTERVAL_S, times[-1] - times[-2])
        self.assertEqual(
            "no full connection to ZooKeeper a,b, trying on: not connected yet: a:1:"
            " refused",
            formatEvent(events[0]),
        )
        self.assertEqual(
            "connected to ZooKeeper a:1, session 0xffffffffffffffff, after 4000.0 s",
            formatEvent(events[-1]),
        )


class HandlerTest(SynchronousTestCase):
    """kazoo's own threads."""

    def setUp(self) -> None:
        """A handler whose deliveries are kept."""
        self.delivered: list[tuple[Any, ...]] = []
        self.ends: list[Exception | None] = []
        self.handler = ReactorHandler(self.deliver, self.ends.append, 7.0)

    def deliver(self, call: Any, *args: Any) -> None:
        """What the bridge does."""
        self.delivered.append((call, *args))

    def test_results(self) -> None:
        """A result of another thread is delivered, one of the reactor's is at once;
        the first counts."""
        seen: list[Any] = []
        result = self.handler.async_result()
        result.rawlink(lambda it: seen.append(it.get()))
        on_thread(result.set, 1)
        on_thread(result.set_exception, KeyError())
        self.assertEqual(([], False), (seen, result.ready()))
        for call, *args in self.delivered:
            call(*args)
        self.assertEqual([1], seen)
        failed = self.handler.async_result()
        failed.set_exception(KeyError())
        failed.rawlink(lambda it: seen.append(it.exception))
        self.assertIsInstance(seen[-1], KeyError)
        self.assertRaises(KeyError, failed.get)

    def test_end_of_the_loop(self) -> None:
        """The end of kazoo's loop is told, with the reason if it broke down."""
        error = UnicodeError("label too long")

        def break_down() -> None:
            raise error

        for loop in (lambda: None, break_down):
            thread = self.handler.spawn(loop)
            self.assertTrue(thread.daemon)
            thread.join()
        self.assertEqual([None, error], [args[-1] for args in self.delivered])

    def test_connections(self) -> None:
        """Connections have a limit, and go to an address of the host that is meant."""
        tried: list[Any] = []

        def connect(address: Any, timeout: float) -> Any:
            tried.append((address, round(timeout)))
            raise ConnectionRefusedError

        self.patch(socket, "create_connection", connect)
        port = 2181
        for address, hostname, timeout in (
            (("127.0.0.1", port), "127.0.0.1", 30),
            (("10.1.1.1", port), "127.0.0.1", 3),
            (("::1", port), "::1", 30),
        ):
            with self.assertRaises(ConnectionRefusedError):
                self.handler.create_connection(address, hostname, timeout)
        self.assertEqual("[::1]:2181", self.handler.peer)
        with self.assertRaises(ConnectionRefusedError):
            self.handler.create_connection(("zk", port))
        home = ("127.0.0.1", port)
        expected = [(home, 7), (home, 3), (("::1", port), 7), (("zk", port), 7)]
        self.assertEqual(expected, tried)
        self.assertEqual("[::1]:2181", self.handler.peer)

    def test_accepted(self) -> None:
        """It is known whether the server that was last tried has accepted."""
        answers: list[Any] = [ConnectionRefusedError(), socket.socket(), OSError()]
        answers.append(socket.socket())

        def connect(address: Any, timeout: float) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            self.addCleanup(answer.close)
            return answer

        self.patch(socket, "create_connection", connect)
        for expected in (False, True, False, True):
            try:
                self.handler.create_connection(("127.0.0.1", 2181), "127.0.0.1")
            except OSError:
                self.assertFalse(expected)
            self.assertEqual(expected, self.handler.is_accepted)

    def test_shuffled(self) -> None:
        """Servers come in every order, all of them each time."""
        servers = ShuffledServers([("a", 1), ("b", 1), ("c", 1)])
        orders = {tuple(servers) for _ in range(1000)}
        self.assertEqual(6, len(orders))
        self.assertEqual(3, len(servers))
