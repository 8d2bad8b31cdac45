"""Where messages go that failed too often (spec client 13)."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.delivery.rejection import (
    DeadLetterTopic,
    Drop,
    IRejection,
    PartitionHalted,
    StopPartition,
    as_rejection,
    origin,
)
from metatwist.client.errors import ListenerFailed, NotConnected
from metatwist.client.message import Message, ReceivedMessage, SendResult
from metatwist.coordination.names import PartitionName
from metatwist.wire.records import join_payload
from tests.client.delivery.scripted import AT, message

ERROR = ListenerFailed("the listener failed: bad")


class Sender:
    """A producer's `send` that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.answer: Deferred[SendResult] = succeed(
            SendResult(7, PartitionName(1, 2), 300)
        )

    def __call__(self, one: Message) -> Deferred[SendResult]:
        self.sent.append(one)
        return self.answer


def with_attribute(attribute: str | None) -> ReceivedMessage:
    """A message with body `body`."""
    flag, payload = join_payload(attribute, b"body")
    return message(1)._replace(flag=flag, payload=payload)


class DeadLetterTest(SynchronousTestCase):
    """The dead letter topic."""

    def _rejected(self, one: ReceivedMessage, **options: Any) -> Message:
        sender = Sender()
        policy = DeadLetterTopic(sender, **options)
        where = self.successResultOf(policy.reject(one, ERROR, "billing", None))
        (sent,) = sender.sent
        self.assertEqual(f"sent to {sent.topic}:1-2 at 300", where)
        return sent

    def test_as_it_is(self) -> None:
        """Body and attribute stay; an empty attribute is not the same as none."""
        for attribute in (None, "", "kind=a"):
            sent = self._rejected(with_attribute(attribute))
            self.assertEqual(Message("orders.dead", b"body", attribute), sent)

    def test_name(self) -> None:
        """The topic's name may have the group in it; a pattern that makes no sense is
        refused at once."""
        sent = self._rejected(message(1), topic="dead-{group}-{topic}")
        self.assertEqual("dead-billing-orders", sent.topic)
        self.assertRaises(KeyError, DeadLetterTopic, Sender(), "{nonsense}")

    def test_origin(self) -> None:
        """On request the attribute says where the message comes from."""
        sent = self._rejected(with_attribute("mine"), attribute=origin)
        assert sent.attribute is not None
        told = json.loads(sent.attribute)
        expected = {"topic": "orders", "partition": "0-3", "offset": 100, "id": 1001}
        expected |= {"group": "billing", "error": str(ERROR), "attribute": "mine"}
        self.assertEqual(expected, told)

    def test_malformed(self) -> None:
        """A payload that cannot be taken apart is sent whole."""
        sent = self._rejected(message(1)._replace(flag=1, payload=b"\xff\xff\xff\xff"))
        self.assertEqual((b"\xff\xff\xff\xff", None), (sent.body, sent.attribute))

    def test_failing(self) -> None:
        """It fails as the producer does."""
        sender = Sender()
        sender.answer = Deferred()
        rejected = DeadLetterTopic(sender).reject(message(1), ERROR, "g", None)
        sender.answer.errback(NotConnected("no broker"))
        self.failureResultOf(rejected, NotConnected)


class PolicyTest(SynchronousTestCase):
    """The others."""

    def test_drop(self) -> None:
        """Dropping succeeds."""
        dropped = Drop().reject(message(1), ERROR, "g", None)
        self.assertEqual("dropped", self.successResultOf(dropped))

    def test_stop(self) -> None:
        """Stopping says where and why."""
        stopped = StopPartition().reject(message(1), ERROR, "g", None)
        error = self.failureResultOf(stopped, PartitionHalted).value
        self.assertEqual((*AT, 100), (error.topic, error.partition, error.offset))
        self.assertIs(ERROR, error.__cause__)

    def test_functions(self) -> None:
        """A function may be plain, a coroutine function, or answer a Deferred; without
        an answer its name is told."""

        def plain(*_: object) -> None:
            pass

        async def later(*_: object) -> str:
            return "elsewhere"

        for function, told in (
            (plain, "given to plain"),
            (later, "elsewhere"),
            (lambda *_: succeed("there"), "there"),
        ):
            policy = as_rejection(function)
            rejected = policy.reject(message(1), ERROR, "g", None)
            self.assertEqual(told, self.successResultOf(rejected))

    def test_what_is_no_policy(self) -> None:
        """A policy is taken as it is; what is neither that nor a function is refused,
        a class that was not called too."""
        policy = Drop()
        self.assertIs(policy, as_rejection(policy))
        for wrong in (None, "drop", Drop):
            self.assertRaises(TypeError, as_rejection, wrong)
        for kind in (Drop, StopPartition, DeadLetterTopic):
            self.assertTrue(IRejection.implementedBy(kind))
