"""Builds the settings of topics from `[system]`, topic sections and `[metatwist]`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from metatwist.broker.settings.findings import Findings
from metatwist.broker.settings.ini import IniEntry
from metatwist.broker.settings.key import Key
from metatwist.broker.settings.model import TopicSettings
from metatwist.broker.settings.schema import METATWIST, TOPIC
from metatwist.broker.settings.sources import Sources
from metatwist.broker.settings.suggestions import did_you_mean
from metatwist.broker.settings.values import SectionReader, bounded_number

_FILTER = "group."
_RETENTION = "retentionBytes."


def topic_defaults(
    system: SectionReader, data_path: Path, retention_bytes: int
) -> TopicSettings:
    """The values that topics inherit; the name is empty."""
    return TopicSettings(
        name="",
        num_partitions=system.number("numPartitions"),
        data_path=data_path,
        unflush_threshold=system.number("unflushThreshold"),
        unflush_interval_ms=system.number("unflushInterval"),
        delete_policy=system.policy(),
        delete_when=system.schedule(),
        accept_publish=system.flag("acceptPublish"),
        accept_subscribe=system.flag("acceptSubscribe"),
        stat=system.flag("stat"),
        retention_bytes=retention_bytes,
    )


def all_topics(
    sources: Sources, defaults: TopicSettings, findings: Findings, home: Path
) -> dict[str, TopicSettings]:
    """The settings of each topic section, patterns included, sorted by name."""
    retention = _retention_by_topic(sources, findings)
    topics: dict[str, TopicSettings] = {}
    for name, entries in sources.topics.items():
        reader = SectionReader(TOPIC, entries, findings, home)
        size_bytes = retention.get(name, defaults.retention_bytes)
        topics[name] = TopicSettings(
            name=name,
            num_partitions=reader.number("numPartitions", defaults.num_partitions),
            data_path=reader.path("dataPath", defaults.data_path),
            unflush_threshold=reader.number(
                "unflushThreshold", defaults.unflush_threshold
            ),
            unflush_interval_ms=reader.number(
                "unflushInterval", defaults.unflush_interval_ms
            ),
            delete_policy=reader.policy(defaults.delete_policy),
            delete_when=reader.schedule(defaults.delete_when),
            accept_publish=reader.flag("acceptPublish", defaults.accept_publish),
            accept_subscribe=reader.flag("acceptSubscribe", defaults.accept_subscribe),
            stat=_stat(entries.get("stat"), defaults.stat, findings),
            filters=_filters(entries, findings),
            retention_bytes=size_bytes,
        )
    return topics


def _stat(entry: IniEntry | None, otherwise: bool, findings: Findings) -> bool:
    """In a topic section any case of `true` is true, all else is false."""
    if entry is None:
        return otherwise
    value = entry.value.lower()
    if value not in ("true", "false"):
        findings.warnings.append(entry.at(f"`{entry.value}` counts as false"))
    return value == "true"


def _filters(entries: Mapping[str, IniEntry], findings: Findings) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, entry in sorted(entries.items()):
        if not key.startswith(_FILTER):
            continue
        found[key.removeprefix(_FILTER)] = entry.value
        parts = entry.value.split(".")
        if len(parts) < 2 or not all(parts):
            findings.problems.append(
                entry.at(
                    f"`{entry.value}` names no filter: write module.callable, or "
                    "package.module.callable"
                )
            )
    return found


def _retention_by_topic(sources: Sources, findings: Findings) -> dict[str, int]:
    key = _row(_RETENTION)
    found: dict[str, int] = {}
    for entry in sources.fixed["metatwist"].values():
        if not entry.key.startswith(_RETENTION):
            continue
        topic = entry.key.removeprefix(_RETENTION)
        try:
            if topic not in sources.topics:
                hint = did_you_mean(topic, sources.topics)
                raise ValueError(f"there is no section [topic={topic}]{hint}")
            found[topic] = bounded_number(key, entry.value)
        except ValueError as error:
            findings.problems.append(entry.at(str(error)))
    return found


def _row(name: str) -> Key:
    return next(key for key in METATWIST if key.name == name)
