"""The settings of a broker as frozen values, checked before they are made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from attrs import evolve, field, frozen

from metatwist.broker.settings.topic_names import (
    compile_pattern,
    is_pattern,
    is_safe_topic,
)


@frozen
class RetentionPolicy:
    """What happens to a sealed segment once it is older than `max_age_s` seconds.

    `compress` counts for kind `archive` only (spec storage 13.1).
    """

    kind: Literal["delete", "archive"]
    max_age_s: int
    compress: bool = False

    def __str__(self) -> str:
        """The policy as `deletePolicy` writes it, in the largest whole unit."""
        units = (("h", 3600), ("m", 60), ("s", 1))
        time = next(
            f"{self.max_age_s // length_s}{unit}"
            for unit, length_s in units
            if self.max_age_s % length_s == 0
        )
        return f"{self.kind},{time}{',true' if self.compress else ''}"


@frozen
class TopicSettings:
    """The values that hold for one topic, inherited ones included.

    `name` is the topic, the text of a pattern in `BrokerSettings.topics`, or empty for
    the defaults. `filters` maps a consumer group to the dotted name of its filter.
    `retention_bytes` bounds one partition; 0 is no bound.
    """

    name: str
    num_partitions: int
    data_path: Path
    unflush_threshold: int
    unflush_interval_ms: int
    delete_policy: RetentionPolicy
    delete_when: str
    accept_publish: bool = True
    accept_subscribe: bool = True
    stat: bool = False
    filters: Mapping[str, str] = field(factory=dict)
    retention_bytes: int = 0

    @property
    def is_pattern(self) -> bool:
        """Whether this is a wildcard section rather than one topic."""
        return is_pattern(self.name)

    @property
    def group_commit(self) -> bool:
        """Whether a put is acknowledged only after fsync (spec storage 7.2)."""
        return self.unflush_threshold <= 0


@frozen
class ZooKeeperSettings:
    """`[zookeeper]`. `root` starts with `/` and does not end with it, or is empty."""

    connect: str
    session_timeout_ms: int
    connection_timeout_ms: int
    sync_time_ms: int
    enable: bool
    root: str


_Patterns = tuple[tuple[re.Pattern[str], TopicSettings], ...]


@frozen
class BrokerSettings:
    """Everything that configures a broker.

    `text` is the file as it was read, byte for byte, and `config_checksum` its unsigned
    CRC-32; overrides from the environment are not in it. `path` is absolute, or None
    for a start without a file. `defaults` has the values of `[system]` that topics
    inherit; `topics` holds all topic sections, patterns too, in order of name.
    `coordinator` is `embedded`, `ensemble` or `none`; `zookeeper_auth` is the one line
    `digest:USER:PASSWORD` of the file, a secret. `host_name` is an IPv6 address in
    brackets.
    """

    path: Path | None
    text: bytes
    config_checksum: int
    broker_id: int
    host_name: str
    server_port: int
    dashboard_http_port: int
    data_path: Path
    data_log_path: Path
    load_stores_in_parallel: bool
    max_segment_bytes: int
    max_transfer_bytes: int
    get_process_thread_count: int
    put_process_thread_count: int
    quartz_thread_count: int
    update_consumer_offsets: bool
    app_class_path: Path | None
    flush_tx_log_at_commit: int
    max_checkpoints: int
    checkpoint_interval_ms: int
    max_tx_timeout_s: int
    max_tx_timeout_capacity: int
    defaults: TopicSettings
    topics: Mapping[str, TopicSettings]
    zookeeper: ZooKeeperSettings | None
    broker_endpoint: str
    idle_timeout_s: int
    max_header_bytes: int
    max_message_bytes: int
    max_pending_bytes: int
    max_connections: int
    max_poll_wait_ms: int
    max_waiting_polls: int
    max_open_segments: int
    retention_bytes: int
    sync_threads: int
    control_socket: bool
    inline_sync: bool
    coordinator: str
    coordinator_endpoint: str
    coordinator_path: Path
    reconcile_interval_s: int
    zookeeper_auth_file: Path | None
    zookeeper_auth: str | None = field(repr=False)
    zookeeper_acl: str
    warnings: tuple[str, ...] = ()
    _patterns: _Patterns = field(init=False, repr=False, eq=False)

    @_patterns.default
    def _compiled(self) -> _Patterns:
        wild = [topic for topic in self.topics.values() if topic.is_pattern]
        wild.sort(key=lambda topic: (-len(topic.name), topic.name))
        return tuple((compile_pattern(topic.name), topic) for topic in wild)

    @property
    def address(self) -> str:
        """The URI that clients know the broker by."""
        return f"meta://{self.host_name}:{self.server_port}"

    def for_topic(self, name: str) -> TopicSettings | None:
        """The settings under which `name` accepts messages, with the name put in, or
        None if it does not."""
        found = self.section_for(name)
        if found is None or found.name == name:
            return found
        return evolve(found, name=name)

    def section_for(self, name: str) -> TopicSettings | None:
        """The section that holds for `name`: its own, else the longest wildcard section
        that matches. Names that are unsafe as a directory never match."""
        found = self.topics.get(name)
        if found is not None and not found.is_pattern:
            return found
        if not is_safe_topic(name):
            return None
        for pattern, topic in self._patterns:
            if pattern.fullmatch(name):
                return topic
        return None
