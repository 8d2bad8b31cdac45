"""What a consumer is subscribed to, and who takes the messages of each topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from metatwist.client.delivery.duplicates import Duplicates
from metatwist.client.delivery.interface import DeliveryContext, Filter, ISink
from metatwist.client.delivery.manual import delivery_for
from metatwist.client.delivery.pulling import Pull
from metatwist.client.delivery.recoveries import Recoveries
from metatwist.client.delivery.rejection import IRejection
from metatwist.client.events import Event
from metatwist.client.producing.payload import topic_problem
from metatwist.client.progress import Progress
from metatwist.client.reading.feed import PartitionFeed

Listener = Callable[..., Any]


@frozen
class Subscription:
    """A topic, and what becomes of its messages.

    Attributes:
        listener: called with each message, in order within a partition; None where
            messages are pulled. It may answer a Deferred or be a coroutine function.
        accepts: messages it finds false are skipped and count as done.
        rejection: what happens to a message that failed too often.
        manual_ack: the listener is called with `(message, acks)` and decides what is
            done.
    """

    topic: str
    listener: Listener | None
    accepts: Filter | None
    rejection: IRejection
    manual_ack: bool


class Subscriptions:
    """Of one consumer, whose `settings` count; it is what rejection policies are given
    as the consumer."""

    def __init__(
        self,
        consumer: Any,
        clock: Any,
        pull: Pull,
        emit: Callable[[Event], object],
    ) -> None:
        settings = consumer.settings
        self.recoveries = Recoveries(clock, settings.group, settings.recovery)
        self._consumer = consumer
        self._clock = clock
        self._pull = pull
        self._emit = emit
        self._duplicates = Duplicates(settings.delivery.remembered)
        self._by_topic: dict[str, Subscription] = {}
        self._contexts: dict[str, DeliveryContext] = {}

    @property
    def all(self) -> tuple[Subscription, ...]:
        """In the order they were made."""
        return tuple(self._by_topic.values())

    @property
    def topics(self) -> frozenset[str]:
        """Their names."""
        return frozenset(self._by_topic)

    def add(self, subscription: Subscription) -> None:
        """One more; raises ValueError as `Consumer.subscribe`."""
        topic, listener = subscription.topic, subscription.listener
        manual_ack = subscription.manual_ack
        problem = topic_problem(topic) or ("has a comma" if "," in topic else None)
        if problem is not None:
            raise ValueError(f"the topic {topic!r} {problem}")
        if topic in self._by_topic:
            raise ValueError(f"topic {topic} is subscribed already")
        if listener is None and manual_ack:
            raise ValueError("manual_ack is for listeners: a pulled batch has commit()")
        self._by_topic[topic] = subscription
        if listener is not None:
            self.recoveries.add(topic, listener, subscription.rejection, manual_ack)

    def open_sink(self, feed: PartitionFeed, progress: Progress) -> ISink:
        """Who takes the messages of a feed."""
        topic = feed.partition.topic
        subscription = self._by_topic[topic]
        context = self._contexts.get(topic)
        if context is None:
            context = self._contexts[topic] = self._context_for(subscription)
        if subscription.listener is None:
            return self._pull.sink(feed, progress, context)
        return delivery_for(feed, progress, subscription.listener, context)

    def _context_for(self, subscription: Subscription) -> DeliveryContext:
        settings = self._consumer.settings
        return DeliveryContext(
            clock=self._clock,
            group=settings.group,
            rejection=subscription.rejection,
            duplicates=self._duplicates,
            settings=settings.delivery,
            accepts=subscription.accepts,
            emit=self._emit,
            consumer=self._consumer,
            manual_ack=subscription.manual_ack,
        )
