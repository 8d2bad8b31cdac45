"""What a changed `server.ini` changes in a running broker (spec configuration 6, C-3).

Nothing is applied here: `compare` says what may change now and what has to wait, and
the broker acts on it. Unlike the original, reloadable keys of `[system]` count as well,
and a removed topic takes no more messages from the reload on.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen

from metatwist.broker.settings.key import Key
from metatwist.broker.settings.model import BrokerSettings, TopicSettings
from metatwist.broker.settings.schema import METATWIST, SYSTEM, ZOOKEEPER

_TOPIC_KEYS = (
    *(key for key in SYSTEM if key.per_topic),
    next(key for key in METATWIST if key.name == "retentionBytes"),
)


@frozen
class Reload:
    """The outcome: settings to go on with, and a sentence for each difference.

    `changed` holds from now on, `needs_restart` is not applied.
    """

    settings: BrokerSettings
    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


@frozen
class _Differences:
    changed: list[str] = field(factory=list)
    needs_restart: list[str] = field(factory=list)

    def add(self, text: str, applied: bool) -> None:
        if applied:
            self.changed.append(text)
        else:
            self.needs_restart.append(f"{text}, waits for a restart")


def compare(running: BrokerSettings, fresh: BrokerSettings) -> Reload:
    """Work out the settings that `running` may take over from `fresh`.

    The file's text, checksum and warnings are those of `fresh`, since that is what
    `stats config` shows from now on.
    """
    found = _Differences()
    applied = _broker_fields(running, fresh, found)
    _compare_zookeeper(running, fresh, found)
    _compare_defaults(running.defaults, fresh.defaults, found)
    settings = evolve(
        running,
        text=fresh.text,
        config_checksum=fresh.config_checksum,
        warnings=fresh.warnings,
        defaults=evolve(fresh.defaults, data_path=running.data_path),
        topics={
            name: _topic(topic, running, fresh, found)
            for name, topic in fresh.topics.items()
        },
        **applied,
    )
    _compare_removed(running, settings, found)
    return Reload(settings, tuple(found.changed), tuple(found.needs_restart))


def _broker_fields(
    running: BrokerSettings, fresh: BrokerSettings, found: _Differences
) -> dict[str, Any]:
    """Note differences outside of topics; return the fields that change now."""
    applied: dict[str, Any] = {}
    for section, keys in (("system", SYSTEM), ("metatwist", METATWIST)):
        for key in keys:
            if key.per_topic or key.per_value:
                continue
            change = _change(key, running, fresh)
            if change:
                found.add(f"[{section}] {change}", key.reload == "yes")
            if key.reload == "yes":
                applied[key.field] = getattr(fresh, key.field)
    return applied


def _compare_zookeeper(
    running: BrokerSettings, fresh: BrokerSettings, found: _Differences
) -> None:
    before, after = running.zookeeper, fresh.zookeeper
    if before is None or after is None:
        if before != after:
            found.add(f"[zookeeper] {'added' if after else 'removed'}", False)
        return
    for key in ZOOKEEPER:
        change = _change(key, before, after)
        if change:
            found.add(f"[zookeeper] {change}", False)


def _compare_defaults(
    before: TopicSettings, after: TopicSettings, found: _Differences
) -> None:
    """A threshold of either mode is fine at once, for topics that are added."""
    for key in SYSTEM:
        change = _change(key, before, after) if key.per_topic else ""
        if change:
            found.add(f"[system] {change}", key.name != "dataPath")


def _topic(
    after: TopicSettings,
    running: BrokerSettings,
    fresh: BrokerSettings,
    found: _Differences,
) -> TopicSettings:
    """The settings of one topic of the fresh file as they hold until a restart."""
    if after.data_path == fresh.data_path:  # inherited, and [system] dataPath stays
        after = evolve(after, data_path=running.data_path)
    before = running.topics.get(after.name)
    if before is None:
        found.add(f"topic {after.name}: added", True)
        before = running.for_topic(after.name)
    if before is None:
        return _with_known_root(after, running, found)
    inherited = {
        key.field
        for key in _TOPIC_KEYS
        if _same(key, before, running.defaults) and _same(key, after, fresh.defaults)
    }
    _compare_topic(before, after, found, inherited)
    kept = evolve(after, data_path=before.data_path)
    if before.group_commit != after.group_commit:
        kept = evolve(kept, unflush_threshold=before.unflush_threshold)
    return kept


def _with_known_root(
    added: TopicSettings, running: BrokerSettings, found: _Differences
) -> TopicSettings:
    """A root that was not among those at the start is neither locked nor read."""
    roots = {topic.data_path for topic in running.topics.values()}
    if added.data_path in {running.data_path, *roots}:
        return added
    change = f"dataPath {running.data_path} -> {added.data_path}"
    found.add(f"topic {added.name}: {change}", False)
    return evolve(added, data_path=running.data_path)


def _compare_topic(
    before: TopicSettings,
    after: TopicSettings,
    found: _Differences,
    inherited: set[str],
) -> None:
    """Note what differs; what was `inherited` is told once, for its section."""
    same_mode = before.group_commit == after.group_commit
    for key in _TOPIC_KEYS:
        change = _change(key, before, after)
        applied = key.reload == "yes" or (key.name == "unflushThreshold" and same_mode)
        if change and not (applied and key.field in inherited):
            found.add(
                f"topic {after.name}: {change}{_fewer(key, before, after)}", applied
            )
    for group in sorted({*before.filters, *after.filters}):
        old = before.filters.get(group, "none")
        new = after.filters.get(group, "none")
        if old != new:
            found.add(f"topic {after.name}: group.{group} {old} -> {new}", True)


def _compare_removed(
    running: BrokerSettings, settings: BrokerSettings, found: _Differences
) -> None:
    for name, before in running.topics.items():
        if name in settings.topics:
            continue
        after = None if before.is_pattern else settings.for_topic(name)
        if after is None:
            found.add(
                f"topic {name}: removed; it takes no more messages, those it has stay "
                "readable",
                True,
            )
        else:
            found.add(f"topic {name}: removed; a wildcard section holds for it", True)
            _compare_topic(before, after, found, set())


def _fewer(key: Key, before: TopicSettings, after: TopicSettings) -> str:
    if key.field != "num_partitions" or after.num_partitions >= before.num_partitions:
        return ""
    first, last = after.num_partitions, before.num_partitions - 1
    return (
        f" (from {first} to {last} they take no more messages, those they have stay "
        "readable)"
    )


def _change(key: Key, before: object, after: object) -> str:
    """`KEY OLD -> NEW`, or an empty text when there is no difference."""
    if _same(key, before, after):
        return ""
    old, new = getattr(before, key.field), getattr(after, key.field)
    return f"{key.name} {_shown(old)} -> {_shown(new)}"


def _same(key: Key, before: object, after: object) -> bool:
    same: bool = getattr(before, key.field) == getattr(after, key.field)
    return same


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)
