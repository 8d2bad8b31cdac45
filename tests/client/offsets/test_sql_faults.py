"""Databases that go away, stand still or come back."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import inlineCallbacks

from metatwist.client.errors import NotOwner, OffsetStorageFailed
from metatwist.client.offsets.interface import Claim, Commit
from metatwist.coordination.formats import OffsetRecord
from tests.client.offsets.offset_contract import place
from tests.client.offsets.sql_case import MariaDbCase, PostgresCase, with_limits
from tests.client.offsets.test_sql import ME, commit
from tests.support.tcp_proxy import TcpProxy

MOST_TRIES = 40
WHERE = place("t", 0, 3)


class Faults:
    """The tests; a mixin."""

    def proxy(self: Any) -> TcpProxy:
        """A proxy in front of the server."""
        proxy = TcpProxy(self.server.port)
        self.addCleanup(proxy.close)
        return proxy

    @inlineCallbacks
    def until_stored(self: Any, storage: Any, one: Any) -> Any:
        """Commit until that is done: with short limits a slow machine needs tries."""
        for _ in range(MOST_TRIES):
            outcome = yield storage.commit((one,))
            if outcome[one.partition] is None:
                return
        self.fail(f"never stored: {outcome}")

    @inlineCallbacks
    def test_restarted(self: Any) -> Any:
        """A server that was restarted meanwhile is connected again, unnoticed."""
        storage = self.open()
        yield storage.commit((commit(1),))
        self.server.stop()
        self.server.start()
        outcome = yield storage.commit((commit(2),))
        self.assertEqual({WHERE: None}, outcome)
        self.server.kill()
        self.server.start()
        self.assertEqual(OffsetRecord(2), (yield storage.load(WHERE, ME)))

    @inlineCallbacks
    def test_down(self: Any) -> Any:
        """While the server is down loads and commits fail and may be tried again; after
        that the same storage goes on."""
        storage = self.open()
        yield storage.commit((commit(1),))
        self.server.stop()
        outcome = yield storage.commit((commit(2),))
        self.assertIsInstance(outcome[WHERE], OffsetStorageFailed)
        self.assertTrue(outcome[WHERE].retriable)
        self.assertIsNotNone(outcome[WHERE].__cause__)
        yield self.assertFailure(storage.load(WHERE, ME), OffsetStorageFailed)
        self.server.start()
        self.assertEqual(OffsetRecord(1), (yield storage.load(WHERE, ME)))
        yield storage.commit((commit(3),))
        self.assertEqual(OffsetRecord(3), (yield storage.load(WHERE, ME)))

    @inlineCallbacks
    def test_claim_ends_meanwhile(self: Any) -> Any:
        """Another try asks the claim again."""
        proxy = self.proxy()
        storage = self.open(port=proxy.port)
        yield storage.commit((commit(1),))
        answers = [True]
        claim = Claim("g1_me", holds=lambda: bool(answers and answers.pop()))
        proxy.cut()
        proxy.heal()
        late = Commit(WHERE, OffsetRecord(2), claim)
        outcome = yield storage.commit((late, commit(5, topic="u")))
        self.assertIsInstance(outcome[WHERE], NotOwner)
        self.assertIsNone(outcome[place("u", 0, 3)])
        self.assertEqual(OffsetRecord(1), (yield storage.load(WHERE, ME)))

    @inlineCallbacks
    def test_stands_still(self: Any) -> Any:
        """A server that does not answer any more fails a commit, whose outcome is not
        known, and the next ones as well; closing does not wait for it."""
        self.settings = with_limits(self.settings, 0.5)
        proxy = self.proxy()
        storage = self.open(port=proxy.port)
        yield self.until_stored(storage, commit(1))
        proxy.cut(black_hole=True)
        waiting = [storage.commit((commit(2),)), storage.load(WHERE, ME)]
        outcome = yield waiting[0]
        self.assertIsInstance(outcome[WHERE], OffsetStorageFailed)
        self.assertTrue(outcome[WHERE].outcome_unknown)
        yield self.assertFailure(waiting[1], OffsetStorageFailed)
        proxy.heal()
        yield self.until_stored(storage, commit(3))
        proxy.cut(black_hole=True)
        storage.commit((commit(4),))
        yield storage.close()

    @inlineCallbacks
    def test_never_answers(self: Any) -> Any:
        """A server that accepts and says nothing fails a load."""
        self.settings = with_limits(self.settings, 0.3)
        proxy = self.proxy()
        proxy.cut(black_hole=True)
        storage = self.open(port=proxy.port)
        yield self.assertFailure(storage.load(WHERE, ME), OffsetStorageFailed)
        yield storage.close()


class MariaDbFaultsTest(MariaDbCase, Faults):
    """On MariaDB."""


class PostgresFaultsTest(PostgresCase, Faults):
    """On PostgreSQL."""
