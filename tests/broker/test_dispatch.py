"""Commands that have no path of their own, and errors that nobody foresaw."""

from __future__ import annotations

from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from metatwist import __version__
from tests.support.broker_parts import BrokerParts, get, opaques, put


class DispatchTests(SynchronousTestCase):
    """`Dispatch.answer`, seen from a connection."""

    def setUp(self) -> None:
        """Connect."""
        self.parts = BrokerParts(self)
        self.peer = self.parts.connect()

    def test_version(self) -> None:
        """`version` is answered with the package's version."""
        text = __version__.encode()
        expected = b"result 200 %d 4\r\n%s" % (len(text), text)
        self.assertEqual(self.peer.ask(b"version 4\r\n"), expected)

    def test_transactions(self) -> None:
        """Every transaction command but END is answered 500 `Unsupported ...`."""
        for kind, verb in (
            ("BEGIN", "beginTransaction"),
            ("PREPARE", "prepareTransaction"),
            ("COMMIT_ONE_PHASE", "commitTransaction"),
            ("COMMIT_TWO_PHASE", "commitTransaction"),
            ("ROLLBACK", "rollbackTransaction"),
            ("FORGET", "forgetTransaction"),
            ("RECOVER", "getPreparedTransactions"),
        ):
            body = f"Unsupported {verb}"
            answer = self.peer.ask(f"transaction null s {kind} 3\r\n".encode())
            self.assertEqual(answer, f"result 500 {len(body)} 3\r\n{body}".encode())

    def test_sync(self) -> None:
        """`sync` to a broker that is no replica is 503."""
        answer = self.peer.ask(b"sync test 0 1 0 123 -1 5\r\nx")
        self.assertTrue(answer.startswith(b"result 503 "))
        self.assertEqual(self.parts.catalog.logs, {})

    def break_part(self, name: str) -> None:
        """Let a part raise what nobody foresaw."""
        target = {"slice": "log_for_read", "stats": "names"}[name]
        patcher = mock.patch.object(
            self.parts.topics, target, side_effect=RuntimeError("a bug")
        )
        patcher.start()
        self.addCleanup(patcher.stop)

    def test_unforeseen_error(self) -> None:
        """A bug is answered 500, logged, and the connection goes on."""
        self.break_part("slice")
        for request in (get(0), b"offset test g 0 0 1\r\n"):
            answer = self.peer.ask(request)
            self.assertTrue(answer.startswith(b"result 500 "), answer)
            self.assertIn(b"a bug", answer)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)
        self.assertEqual(opaques(self.peer.ask(put(b"x", 5))), [5])

    def test_unforeseen_error_in_stats(self) -> None:
        """The same holds for stats."""
        self.break_part("stats")
        self.assertTrue(self.peer.ask(b"stats  1\r\n").startswith(b"result 500 "))
        self.flushLoggedErrors(RuntimeError)

    def test_unforeseen_error_behind_a_put(self) -> None:
        """The same holds for what waits behind a put, and others are not harmed."""
        self.break_part("slice")
        other = self.parts.connect()
        self.peer.send(put(b"x", 1), get(0, 2), b"offset test g 0 0 3\r\n")
        other.send(put(b"y", 4))
        self.parts.settle()
        self.assertEqual(opaques(self.peer.taken()), [1, 2, 3])
        self.assertEqual(opaques(other.taken()), [4])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)
