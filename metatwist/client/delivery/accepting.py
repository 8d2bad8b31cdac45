"""The user's filter in front of the listener (spec client 12.2)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger

from metatwist.client.delivery.interface import DeliveryContext, Filter
from metatwist.client.errors import ClientError, Where
from metatwist.client.events import FilterFailed
from metatwist.client.message import ReceivedMessage, TopicPartition

_log = Logger()
Call = Callable[[ReceivedMessage], object]


class CarefulFilter:
    """Whether a message is wanted: never raises; a filter that does wants none.

    Each kind of exception is told once, as event and in the log.
    """

    def __init__(
        self, accepts: Filter, context: DeliveryContext, partition: TopicPartition
    ) -> None:
        self._accepts = accepts
        self._context = context
        self._partition = partition
        self._told: set[type[Exception]] = set()

    def __call__(self, message: ReceivedMessage) -> bool:
        try:
            return bool(self._accepts(message))
        except Exception as error:
            if type(error) not in self._told:
                self._told.add(type(error))
                self._tell(message, error)
            return False

    def _tell(self, message: ReceivedMessage, cause: Exception) -> None:
        where = Where(None, message.topic, message.partition, message.offset)
        error = ClientError(f"the filter: {type(cause).__name__}: {cause}", where)
        error.__cause__ = cause
        _log.warn(
            "messages of {partition} are skipped: {error}",
            partition=self._partition,
            error=error,
        )
        self._context.emit(FilterFailed(message, error))


def accepting(
    listener: Call,
    context: DeliveryContext,
    partition: TopicPartition,
    skip: Callable[[ReceivedMessage], None],
) -> Call:
    """`listener` for what the filter accepts, and `skip` for the rest."""
    if context.accepts is None:
        return listener
    accepts = CarefulFilter(context.accepts, context, partition)

    def call(message: ReceivedMessage) -> object:
        if accepts(message):
            return listener(message)
        skip(message)
        return None

    return call
