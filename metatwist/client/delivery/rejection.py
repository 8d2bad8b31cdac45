"""What becomes of a message that failed too often (spec client 13).

A policy is an IRejection, or any callable with the arguments of its `reject`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from zope.interface import Interface, implementer

from metatwist.client.delivery.outcomes import deferred_from
from metatwist.client.errors import ClientError
from metatwist.client.message import Message, ReceivedMessage, SendResult


class IRejection(Interface):
    """Takes messages that are not delivered any more."""

    def reject(
        message: ReceivedMessage, error: ClientError, group: str, consumer: Any
    ) -> Deferred[str]:
        """Fires with where the message went, once it is safe there; the partition goes
        on behind it then.

        While it fails, it is called again with pauses, without limit: nothing is lost.
        Failing with `PartitionHalted` stops the partition. The same message may come
        again after a restart. Cancelling stops the wait; the message then counts as
        not rejected.
        """


class PartitionHalted(ClientError):
    """The policy wants nothing more of the partition to be delivered; `__cause__` is
    why the message failed."""


Answering = Callable[[ReceivedMessage, ClientError, str, Any], object]


@implementer(IRejection)
class Custom:
    """A function as policy: plain, or answering a Deferred or an awaitable. What it
    answers is told as the outcome; what it raises makes it be called again."""

    def __init__(self, function: Answering) -> None:
        self._function = function

    def reject(
        self, message: ReceivedMessage, error: ClientError, group: str, consumer: Any
    ) -> Deferred[str]:
        """See IRejection."""
        return maybeDeferred(self._called, message, error, group, consumer).addCallback(
            self._told
        )

    def _called(self, *arguments: Any) -> Any:
        answer = self._function(*arguments)
        return deferred_from(answer) or answer

    def _told(self, answer: object) -> str:
        name = getattr(self._function, "__name__", type(self._function).__name__)
        return f"given to {name}" if answer is None else str(answer)


def as_rejection(policy: object) -> IRejection:
    """A policy, given as one or as a function; raises TypeError for anything else."""
    if IRejection.providedBy(policy):
        return policy
    if callable(policy) and not isinstance(policy, type):
        return Custom(policy)
    raise TypeError(f"{policy!r} is no rejection policy, and cannot be called")


@implementer(IRejection)
class Drop:
    """The message is lost; the event `Rejected` and the log are all that tells."""

    def reject(
        self, message: ReceivedMessage, error: ClientError, group: str, consumer: Any
    ) -> Deferred[str]:
        """See IRejection."""
        return succeed("dropped")


@implementer(IRejection)
class StopPartition:
    """Deliver nothing more from the partition: order matters more than progress. It
    goes on after a seek, or when it is assigned anew."""

    def reject(
        self, message: ReceivedMessage, error: ClientError, group: str, consumer: Any
    ) -> Deferred[str]:
        """See IRejection."""
        halted = PartitionHalted(f"stopped at a message that failed: {error.text}")
        halted.at(message.topic, message.partition, message.offset)
        halted.__cause__ = error
        return fail(halted)


Attribute = Callable[[ReceivedMessage, ClientError, str], str | None]


def origin(message: ReceivedMessage, error: ClientError, group: str) -> str:
    """An attribute for dead letters that says where they come from, as JSON: `topic`,
    `partition` (`<broker>-<number>`), `offset` (bytes), `id`, `group`, `error`, and
    `attribute`, the user's own (null for none)."""
    return json.dumps(
        {
            "topic": message.topic,
            "partition": str(message.partition),
            "offset": message.offset,
            "id": message.message_id,
            "group": group,
            "error": str(error),
            "attribute": _parts(message)[0],
        },
        ensure_ascii=False,
    )


def _parts(message: ReceivedMessage) -> tuple[str | None, bytes]:
    """Attribute and body; all of the payload where it makes no sense."""
    try:
        return message.attribute, message.body
    except ValueError:
        return None, message.payload


@implementer(IRejection)
class DeadLetterTopic:
    """Sends the message to another topic with `send`, a producer's.

    `topic` is its name, in which `{topic}` and `{group}` stand for the message's. Body
    and attribute stay as they are, since both are the user's; `attribute=origin` puts
    where the message comes from into the attribute instead. After a restart, or when
    an answer is lost, a dead letter may be there twice.
    """

    def __init__(
        self,
        send: Callable[[Message], Deferred[SendResult]],
        topic: str = "{topic}.dead",
        attribute: Attribute | None = None,
    ) -> None:
        topic.format(topic="t", group="g")
        self._send = send
        self._topic = topic
        self._attribute = attribute

    def reject(
        self, message: ReceivedMessage, error: ClientError, group: str, consumer: Any
    ) -> Deferred[str]:
        """See IRejection; fails as `send` does."""
        topic = self._topic.format(topic=message.topic, group=group)
        attribute, body = _parts(message)
        if self._attribute is not None:
            attribute = self._attribute(message, error, group)
        sent = self._send(Message(topic, body, attribute))
        return sent.addCallback(
            lambda result: f"sent to {topic}:{result.partition} at {result.offset}"
        )
