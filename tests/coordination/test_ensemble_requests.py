"""The ensemble's coordinator on a kazoo that does what the test says: requests."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import AuthFailedError, NoNodeError, SessionExpiredError
from twisted.internet.defer import CancelledError

from metatwist.coordination.ensemble_requests import MOST_IN_FLIGHT
from metatwist.coordination.errors import (
    BadArguments,
    ConnectionLost,
    NoNode,
    OperationTimeout,
    TransactionFailed,
)
from metatwist.coordination.interface import Delete, SessionState

from .kazoo_fakes import REQUEST_S, EnsembleCase, stat


class RequestsTest(EnsembleCase):
    """Each request ends once, and in time."""

    def test_without_connection(self) -> None:
        """Without a connection a request fails at once, with the reason."""
        error = self.failureResultOf(self.tree.exists("/a"), ConnectionLost).value
        self.assertIn("not connected yet", str(error))
        self.connected()
        self.suspended()
        self.failureResultOf(self.tree.exists("/a"), ConnectionLost)
        self.assertEqual([], self.client.calls)

    def test_interrupted(self) -> None:
        """When the connection breaks listeners know before requests fail, once."""
        self.connected()
        seen: list[Any] = []
        for path in ("/a", "/b"):
            asked = self.tree.exists(path)
            asked.addErrback(lambda failure: seen.append(failure.type))
        self.tree.on_state(seen.append)
        self.suspended()
        self.assertEqual([SessionState.SUSPENDED, ConnectionLost, ConnectionLost], seen)
        self.client.calls[0].answer(stat())
        self.reactor.turn()
        self.assertEqual(3, len(seen))

    def test_lost_by_kazoo(self) -> None:
        """A request that kazoo forgets about fails with the connection too."""
        self.connected()
        asked = self.tree.exists("/a")
        self.client.calls.clear()
        self.suspended()
        self.failureResultOf(asked, ConnectionLost)

    def test_room_after_a_loss(self) -> None:
        """Requests that kazoo forgets about do not count as under way for ever."""
        client = self.connected()
        lost = [self.tree.exists("/a") for _ in range(MOST_IN_FLIGHT)]
        client.calls.clear()
        self.suspended()
        self.resumed()
        asked = self.tree.exists("/b")
        self.answer(None)
        self.successResultOf(asked)
        for one in lost:
            self.failureResultOf(one, ConnectionLost)

    def test_answered_at_once(self) -> None:
        """Thousands of requests that end as soon as they are sent are no problem."""
        client = self.connected()

        def missing(_path: str) -> Any:
            result = client.handler.async_result()
            result.set(None)
            return result

        asked = [self.tree.exists("/a") for _ in range(5000)]
        self.patch(client, "exists_async", missing)
        self.answer(None)
        for one in asked[MOST_IN_FLIGHT:]:
            self.assertIsNone(self.successResultOf(one))

    def test_refused_by_kazoo(self) -> None:
        """What kazoo says of a dead session becomes ConnectionLost, in order."""
        for error in (SessionExpiredError(), AuthFailedError()):
            client = self.connected()
            asked = self.tree.exists("/a")
            client.calls[-1].refuse(error)
            self.reactor.turn()
            self.assertNoResult(asked)
            client.lose()
            self.reactor.turn()
            self.failureResultOf(asked, ConnectionLost)

    def test_too_late(self) -> None:
        """A request has a limit; an answer after that is ignored."""
        self.connected()
        asked = self.tree.exists("/a")
        self.reactor.advance(REQUEST_S - 1)
        self.assertNoResult(asked)
        self.reactor.advance(1)
        self.failureResultOf(asked, OperationTimeout)
        self.answer(stat())

    def test_cancelled(self) -> None:
        """A request can be cancelled; its answer is ignored then."""
        self.connected()
        asked = self.tree.exists("/a")
        asked.cancel()
        self.failureResultOf(asked, CancelledError)
        self.answer(stat())
        self.assertEqual([], self.reactor.getDelayedCalls())

    def test_many(self) -> None:
        """kazoo gets so many at a time and in order, and none that was cancelled."""
        client = self.connected()
        asked = [self.tree.exists(f"/{number}") for number in range(300)]
        self.assertEqual(MOST_IN_FLIGHT, len(client.calls))
        asked[150].addErrback(lambda _: None).cancel()
        for number in range(299):
            client.calls[number].answer(None)
            self.reactor.turn()
        expected = [f"/{number}" for number in range(300) if number != 150]
        self.assertEqual(expected, [call.args[0] for call in client.calls])
        for one in asked:
            self.assertIsNone(self.successResultOf(one))

    def test_wrong_arguments(self) -> None:
        """What cannot be sent fails with BadArguments, and the rest goes on."""
        self.connected()
        self.failureResultOf(self.tree.get("a"), BadArguments)
        self.failureResultOf(self.tree.create("/a/"), BadArguments)
        self.failureResultOf(self.tree.transaction([Delete("a")]), BadArguments)

        def refuse(*_args: object) -> None:
            raise TypeError("Invalid type")

        self.patch(self.client, "exists_async", refuse)
        self.failureResultOf(self.tree.exists("/a"), BadArguments)
        del self.client.exists_async
        asked = self.tree.exists("/a")
        self.answer(None)
        self.assertIsNone(self.successResultOf(asked))

    def test_lazy_parents(self) -> None:
        """Parents are made from the leaf upwards, then down again; one that another
        client makes meanwhile is fine."""
        client = self.connected()
        made = self.tree.create("/a/b/c", b"x", ephemeral=True, make_parents=True)
        answers = [NoNodeError(), NoNodeError(), "/a", "/a/b", "/a/b/c"]
        for answer in answers:
            if isinstance(answer, Exception):
                client.calls[-1].refuse(answer)
            else:
                client.calls[-1].answer(answer)
            self.reactor.turn()
        self.assertEqual("/a/b/c", self.successResultOf(made))
        asked = [(call.args[0], call.args[1], call.args[3]) for call in client.calls]
        leaf, middle = ("/a/b/c", b"x", True), ("/a/b", None, False)
        self.assertEqual([leaf, middle, ("/a", None, False), middle, leaf], asked)

    def test_no_chroot_to_make(self) -> None:
        """At the top there is no parent to make: the error is passed on."""
        self.connected()
        made = self.tree.create("/a", make_parents=True)
        self.client.calls[-1].refuse(NoNodeError())
        self.reactor.turn()
        self.failureResultOf(made, NoNode)

    def test_failed_transaction(self) -> None:
        """A transaction that failed names the operation."""
        self.connected()
        asked = self.tree.transaction([Delete("/a"), Delete("/b")])
        self.answer([True, NoNodeError()])
        error = self.failureResultOf(asked, TransactionFailed).value
        self.assertEqual((1, "/b"), (error.index, error.cause.subject))
