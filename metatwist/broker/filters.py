"""Broker-side filters: which records a consumer group is given.

A topic section names them, `group.<group> = package.module.callable`; they load from
`appClassPath` and are called as `accept(group, record) -> bool`, once per record, so
they should be quick and must not block. One that raises has not accepted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import NamedTuple

from twisted.logger import Logger

from metatwist.broker.topics import Topics
from metatwist.errors import MetatwistError
from metatwist.wire.records import Record, is_intact, whole_records

Accept = Callable[[str, Record], bool]


class FilterFailed(MetatwistError):
    """A filter cannot be loaded, or met a damaged record: the get answers 500."""


class AcceptedRun(NamedTuple):
    """`skipped` bytes of rejected records at the front, or `accepted` bytes of accepted
    ones; both 0 when not one record is complete."""

    skipped: int
    accepted: int


class Filters:
    """Loads each filter once; without a folder of filters none is active."""

    _log = Logger()

    def __init__(self, topics: Topics, folder: Path | None) -> None:
        self._topics = topics
        self._active = folder is not None and folder.is_dir()
        self._loaded: dict[str, Accept] = {}
        if self._active and folder is not None and str(folder) not in sys.path:
            sys.path.append(str(folder))

    def find(self, topic: str, group: str) -> Accept | None:
        """The group's filter for a topic, None without one; raises FilterFailed."""
        if not self._active:
            return None
        settings = self._topics.find(topic)
        name = settings.filters.get(group) if settings is not None else None
        if name is None:
            return None
        if name not in self._loaded:
            self._loaded[name] = _load(name)
        return self._loaded[name]


def _load(name: str) -> Accept:
    module_name, _, attribute = name.rpartition(".")
    try:
        invalidate_caches()
        found = getattr(import_module(module_name), attribute)
        accept = found() if isinstance(found, type) else found
    except Exception as error:
        raise FilterFailed(f"cannot load filter {name}: {error!r}") from error
    accept = getattr(accept, "accept", accept)
    if not callable(accept):
        raise FilterFailed(f"filter {name} is not callable")
    return accept  # type: ignore[no-any-return]


def accepted_run(data: bytes, group: str, accept: Accept) -> AcceptedRun:
    """Walk the complete records in `data`; raises FilterFailed at a bad checksum.

    Accepted records never follow rejected ones in one answer, so the offset that a
    consumer computes from what it got is right (spec wire-protocol 7.10).
    """
    first: bool | None = None
    end = 0
    for record in whole_records(data):
        if not is_intact(record):
            if first is None:
                raise FilterFailed(f"bad checksum, message id {record.message_id}")
            break
        if first is None:
            first = _accepts(accept, group, record)
        elif _accepts(accept, group, record) is not first:
            break
        end = record.offset + record.size_bytes
    return AcceptedRun(0, end) if first else AcceptedRun(end, 0)


def _accepts(accept: Accept, group: str, record: Record) -> bool:
    try:
        return bool(accept(group, record))
    except Exception:
        Filters._log.failure("filter {accept} raised", accept=accept)
        return False
