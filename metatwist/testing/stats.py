"""What a fake broker says of itself (spec wire-protocol 3.7)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from attrs import frozen

from metatwist import __version__
from metatwist.testing.store import FakeStore

VERSION = __version__
EXTENSIONS = "extensions"
_EVENTS = ("put", "get", "offset", "get_miss", "put_failed", "message_size")
_HELP = (
    "*EMPTY* Returns broker info.",
    "help Returns help menu.",
    "topics Returns topics statistics detail info.",
    "offsets Returns partitions detail info.",
    "realtime Returns realtime statistics detail info.",
    "config Returns broker's config file content.",
)


@frozen
class FakeStats:
    """The texts of `stats`, with `stat` off for all topics and an empty configuration.

    `uptime_s` and `connections` are asked each time.
    """

    store: FakeStore
    port: int
    uptime_s: Callable[[], int]
    connections: Callable[[], int]

    def text(self, item: str) -> str:
        """The body of an answer; an unknown item is taken for a topic."""
        if item == "config":
            return ""
        items = {
            "": self._general,
            "help": lambda: iter(_HELP),
            "topics": self._topics,
            "offsets": self._offsets,
            "realtime": lambda: (f"realtime_{event} null" for event in _EVENTS),
            "reset": lambda: iter(["reset ok"]),
            EXTENSIONS: self._extensions,
        }
        lines = items.get(item, lambda: self._topic(item))()
        return "".join(f"{line}\r\n" for line in ("STATS", *lines, "END"))

    def _general(self) -> Iterator[str]:
        store, counters = self.store, self.store.counters
        stored = {topic for topic, _ in store.partitions}
        totals = [self._totals(topic) for topic in stored]
        values: dict[str, object] = {
            "pid": os.getpid(),
            "broker_id": store.broker_id,
            "port": self.port,
            "uptime": self.uptime_s(),
            "version": VERSION,
            "slave": "false",
            "curr_connections": self.connections(),
            "threads": 1,
            "cmd_put": counters.cmd_put,
            "cmd_get": counters.cmd_get,
            "cmd_offset": counters.cmd_offset,
            "tx_begin": 0,
            "tx_xa_begin": 0,
            "tx_commit": 0,
            "tx_rollback": 0,
            "get_miss": counters.get_miss,
            "put_failed": counters.put_failed,
            "total_messages": sum(messages for _, messages, _ in totals),
            "topics": len(stored | store.topics.keys()),
            "config_checksum": 0,
        }
        return (f"{name} {value}" for name, value in values.items())

    def _totals(self, topic: str) -> tuple[int, int, int]:
        """(partitions, messages, bytes) of a topic."""
        stored = self.store.partitions.items()
        its = [found for (name, _), found in stored if name == topic]
        messages = sum(len(one.records()) for one in its)
        return len(its), messages, sum(one.size_bytes for one in its)

    def _topics(self) -> Iterator[str]:
        stored = dict.fromkeys(topic for topic, _ in self.store.partitions)
        for topic in stored:
            partitions, messages, size = self._totals(topic)
            yield (
                f"{topic} partitions {partitions} message_count {messages}"
                f" message_bytes {size} accept_publish true accept_subscribe true"
            )
        for topic in sorted(self.store.topics.keys() - stored.keys()):
            yield f"{topic} *Empty*"

    def _offsets(self) -> Iterator[str]:
        for (topic, partition), found in self.store.partitions.items():
            yield (
                f"{topic} part {partition} min_offset {found.start}"
                f" max_offset {found.end}"
            )

    def _extensions(self) -> Iterator[str]:
        yield f"{EXTENSIONS} poll partitions"
        for topic, partitions in self.store.topics.items():
            yield f"partitions {topic} {partitions}"
        if EXTENSIONS in self.store.topics:
            yield from self._topic(EXTENSIONS)

    def _topic(self, topic: str) -> Iterator[str]:
        partitions, messages, size = self._totals(topic)
        code = 0 if partitions else 2 if topic in self.store.topics else 1
        yield topic
        yield f"resultCode {code}"
        yield f"partitions {partitions}"
        yield f"message_count {messages}"
        yield f"bytes {size}"
        for event in _EVENTS:
            yield f"topic_realtime_{event} null"
