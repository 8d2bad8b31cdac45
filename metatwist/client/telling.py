"""Events on their way to the log and to the user.

A failure that repeats is logged the 1st, 2nd, 4th, 8th ... time. Bodies of messages are
never logged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.logger import Logger, LogLevel

from metatwist.client import events
from metatwist.client.message import ReceivedMessage


def _names(partitions: Any) -> str:
    return ", ".join(map(str, partitions))


def _place(message: ReceivedMessage) -> str:
    return f"{message.topic}:{message.partition} at {message.offset}"


def _jump(event: events.OffsetJumped) -> str:
    start = "" if event.from_offset is None else f" from {event.from_offset}"
    return f"{event.partition} goes on{start} at {event.to_offset}: {event.reason}"


def _revoked(event: events.Revoked) -> str:
    how = "lost" if event.lost else "given up"
    return f"{how}: {_names(event.partitions)}"


_SENTENCES: dict[type, Callable[[Any], str]] = {
    events.Assigned: lambda event: f"assigned: {_names(event.partitions)}",
    events.Revoked: _revoked,
    events.OffsetJumped: _jump,
    events.PartitionStopped: lambda event: f"{event.partition} stops: {event.error}",
    events.FetchFailed: lambda event: (
        f"{event.partition} cannot be fetched, {event.failures}. time: {event.error}"
    ),
    events.DeliveryFailed: lambda event: (
        f"{_place(event.message)} failed, {event.failures}. time: {event.error}"
    ),
    events.Rejected: lambda event: f"{_place(event.message)} rejected: {event.outcome}",
    events.RejectionFailed: lambda event: (
        f"{_place(event.message)} cannot be rejected, {event.failures}. time:"
        f" {event.error}"
    ),
    events.FilterFailed: lambda event: (
        f"{_place(event.message)} skipped, the filter failed: {event.error}"
    ),
    events.CommitFailed: lambda event: (
        f"{event.partition} is not committed: {event.error}"
    ),
    events.GroupTrouble: lambda event: event.text,
}
_USUAL = (events.Assigned, events.Revoked)


def sentence(event: events.Event) -> str:
    """An event in words, for a log."""
    return _SENTENCES[type(event)](event)


class Telling:
    """Takes the events of one consumer, `who`; never raises."""

    _log = Logger()

    def __init__(
        self, who: str, on_event: Callable[[events.Event], object] | None
    ) -> None:
        self._who = who
        self._on_event = on_event

    def __call__(self, event: events.Event) -> None:
        """It has happened."""
        failures = getattr(event, "failures", 1)
        level = LogLevel.info if isinstance(event, _USUAL) else LogLevel.warn
        if failures & (failures - 1):
            level = LogLevel.debug
        self._log.emit(level, "{who}: {what}", who=self._who, what=sentence(event))
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:
            self._log.failure("on_event failed")
