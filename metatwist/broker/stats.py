"""The texts of the `stats` command, line for line (spec wire-protocol 3.7)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_HALF_EVEN, Decimal

from attrs import define, evolve

from metatwist import __version__
from metatwist.broker.numbers import BrokerNumbers, TopicNumbers
from metatwist.broker.registration import offers, stored_topics
from metatwist.broker.topics import Topics

RESET_EVERY_S = 1800
EXTENSIONS = "extensions"
_OURS = "poll partitions"
_HELP = (
    "*EMPTY* Returns broker info.",
    "help Returns help menu.",
    "topics Returns topics statistics detail info.",
    "offsets Returns partitions detail info.",
    "realtime Returns realtime statistics detail info.",
    "config Returns broker's config file content.",
)
_EVENTS = ("put", "get", "offset", "get_miss", "put_failed", "message_size")


@define
class Reading:
    """A count of events and the sum of their values since the last reset."""

    count: int
    value: int


class RealTime:
    """Per-topic numbers since the last reset, for topics with `stat` on."""

    def __init__(
        self, numbers: BrokerNumbers, topics: Topics, seconds: Callable[[], float]
    ) -> None:
        self._numbers = numbers
        self._topics = topics
        self._seconds = seconds
        self._since: dict[str, TopicNumbers] = {}
        self._reset_s = seconds()

    def reset(self) -> None:
        """Begin anew; what was ever recorded stays known as a key."""
        self._since = {
            name: evolve(found) for name, found in self._numbers.topics.items()
        }
        self._reset_s = self._seconds()

    def reset_if_due(self) -> None:
        """The reset of every half hour."""
        if self._seconds() - self._reset_s >= RESET_EVERY_S:
            self.reset()

    def text(self, event: str, topic: str | None = None) -> str:
        """The result of one kind of event, over all topics or one."""
        self.reset_if_due()
        counted = {
            name: found
            for name, found in self._numbers.topics.items()
            if getattr(found, event) and self._is_counted(name)
        }
        if not counted:
            return "null"
        if topic is not None and topic not in counted:
            return f"Invalid keyTwo:{topic}"
        names = counted if topic is None else [topic]
        readings = [self._reading(name, event) for name in names]
        count = sum(reading.count for reading in readings)
        value = sum(reading.value for reading in readings)
        duration_s = int(self._seconds() - self._reset_s)
        return (
            f"Count={count},Value={value},Value/Count={ratio(value, count)},"
            f"Count/Duration={ratio(count, duration_s)},Duration={duration_s}"
        )

    def _is_counted(self, topic: str) -> bool:
        settings = self._topics.find(topic)
        return settings is not None and settings.stat

    def _reading(self, topic: str, event: str) -> Reading:
        now = self._numbers.topics[topic]
        since = self._since.get(topic) or TopicNumbers()
        count = getattr(now, event) - getattr(since, event)
        if event != "message_size":
            return Reading(count, count)
        return Reading(count, now.message_size_bytes - since.message_size_bytes)


def ratio(value: int, count: int) -> str:
    """At most two decimals, half to even, `invalid` for a division by zero."""
    if not count:
        return "invalid"
    exact = Decimal(value) / Decimal(count)
    text = f"{exact.quantize(Decimal('0.01'), ROUND_HALF_EVEN):f}"
    return text.rstrip("0").rstrip(".")


class Stats:
    """Answers every item; `seconds` is a monotonic clock."""

    version = __version__

    def __init__(
        self, topics: Topics, numbers: BrokerNumbers, seconds: Callable[[], float]
    ) -> None:
        self._topics = topics
        self._numbers = numbers
        self._seconds = seconds
        self._started_s = seconds()
        self.real_time = RealTime(numbers, topics, seconds)
        self._items: dict[str, Callable[[], list[str]]] = {
            "": self._general,
            "help": lambda: list(_HELP),
            "topics": self._list_topics,
            "offsets": self._offsets,
            "realtime": self._realtime,
            "reset": self._reset,
            EXTENSIONS: self._extensions,
        }

    @property
    def uptime_s(self) -> int:
        """Whole seconds since the start."""
        return int(self._seconds() - self._started_s)

    def answer(self, item: str) -> tuple[int, bytes]:
        """(code, body) of an item; an unknown one is taken for a topic."""
        if item == "config":
            return self._config()
        lines = self._items.get(item, lambda: self._one_topic(item))()
        text = "".join(f"{line}\r\n" for line in ("STATS", *lines, "END"))
        # An admin's item may be text that UTF-8 has no bytes for.
        return 200, text.encode("utf-8", "replace")

    def _config(self) -> tuple[int, bytes]:
        settings = self._topics.settings
        return 200, settings.text

    def _general(self) -> list[str]:
        numbers, settings = self._numbers, self._topics.settings
        logs = self._topics.catalog.logs
        values = {
            "pid": os.getpid(),
            "broker_id": settings.broker_id,
            "port": settings.server_port,
            "uptime": self.uptime_s,
            "version": self.version,
            "slave": "false",
            "curr_connections": numbers.connections,
            "threads": threading.active_count(),
            "cmd_put": numbers.cmd_put,
            "cmd_get": numbers.cmd_get,
            "cmd_offset": numbers.cmd_offset,
            "tx_begin": 0,
            "tx_xa_begin": 0,
            "tx_commit": 0,
            "tx_rollback": 0,
            "get_miss": numbers.get_miss,
            "put_failed": numbers.put_failed,
            "total_messages": sum(log.messages for log in logs.values()),
            "topics": len(self._topics.names()),
            "config_checksum": settings.config_checksum,
        }
        return [f"{name} {value}" for name, value in values.items()]

    def _list_topics(self) -> list[str]:
        stored = self._topics.settings_of_stored()
        totals = self._totals(stored)
        lines = []
        for topic, settings in stored.items():
            partitions, messages, size = totals[topic]
            publish, subscribe = settings.accept_publish, settings.accept_subscribe
            lines.append(
                f"{topic} partitions {partitions} message_count {messages}"
                f" message_bytes {size} accept_publish {str(publish).lower()}"
                f" accept_subscribe {str(subscribe).lower()}"
            )
        empty = sorted(self._topics.settings.topics.keys() - stored.keys())
        return lines + [f"{topic} *Empty*" for topic in empty]

    def _totals(self, topics: Iterable[str]) -> dict[str, tuple[int, int, int]]:
        """(partitions, messages, bytes) of each of `topics`."""
        totals = dict.fromkeys(topics, (0, 0, 0))
        for (topic, _), log in self._topics.catalog.logs.items():
            if topic in totals:
                partitions, messages, size = totals[topic]
                messages, size = messages + log.messages, size + log.size_bytes
                totals[topic] = partitions + 1, messages, size
        return totals

    def _offsets(self) -> list[str]:
        return [
            f"{topic} part {partition} min_offset {log.start}"
            f" max_offset {log.readable_end}"
            for (topic, partition), log in self._topics.catalog.logs.items()
        ]

    def _realtime(self) -> list[str]:
        return [f"realtime_{event} {self.real_time.text(event)}" for event in _EVENTS]

    def _reset(self) -> list[str]:
        self.real_time.reset()
        return ["reset ok"]

    def _extensions(self) -> list[str]:
        """What is there beyond the protocol, on one line, by which clients ask for it;
        then what it offers, as a coordinator would show it.

        To a Java broker the item is a topic: its answer begins with the item alone.
        """
        lines = [f"{EXTENSIONS} {_OURS}", *self._offered()]
        if self._topics.is_counted(EXTENSIONS):
            lines += self._one_topic(EXTENSIONS)
        return lines

    def _offered(self) -> Iterator[str]:
        """For clients without a coordinator: `stats offsets` knows nothing of
        partitions that have no store yet."""
        settings = self._topics.settings
        found, _ = offers(settings, stored_topics(self._topics))
        for topic, offer in found.items():
            if topic in settings.topics and settings.topics[topic].is_pattern:
                continue
            publish, subscribe = offer.publish or 0, offer.subscribe or 0
            yield f"partitions {topic} {publish}"
            if subscribe != publish:
                yield f"readable {topic} {subscribe}"

    def _one_topic(self, topic: str) -> list[str]:
        partitions, messages, size = self._totals([topic])[topic]
        configured = topic in self._topics.settings.topics
        code = 0 if partitions else 2 if configured else 1
        head = [
            topic,
            f"resultCode {code}",
            f"partitions {partitions}",
            f"message_count {messages}",
            f"bytes {size}",
        ]
        return head + [
            f"topic_realtime_{event} {self.real_time.text(event, topic)}"
            for event in _EVENTS
        ]
