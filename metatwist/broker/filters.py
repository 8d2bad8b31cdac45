"""Broker-side filters: which records a consumer group is given.

A topic section names them, `group.<group> = package.module.callable`; they load from
`appClassPath` and are called as `accept(group, record) -> bool`, once per record, on
the main thread, so they should be quick and must not block. One that raises has not
accepted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import NamedTuple

from twisted.logger import Logger

from metatwist.broker.topics import Topics
from metatwist.errors import MetatwistError
from metatwist.wire.records import Record, is_intact, whole_records

Accept = Callable[[str, Record], bool]
TELL_EVERY_S = 60.0
# A filter may call sys.exit, or its module at import: that ends no broker.
_ANY_FAULT = (Exception, SystemExit)

_log = Logger()


class FilterFailed(MetatwistError):
    """A filter cannot be loaded, or met a damaged record: the get answers 500."""


class AcceptedRun(NamedTuple):
    """`skipped` bytes of rejected records at the front, or `accepted` bytes of accepted
    ones; both 0 when not one record is complete."""

    skipped: int
    accepted: int


class _Guarded:
    """A filter that never raises; `seconds` is a monotonic clock.

    The first fault is logged with its traceback, later ones are counted and told once a
    minute at most, since there may be one for each message.
    """

    def __init__(self, name: str, accept: Accept, seconds: Callable[[], float]) -> None:
        self._name = name
        self._accept = accept
        self._seconds = seconds
        self._told_s: float | None = None
        self._untold = 0

    def __call__(self, group: str, record: Record) -> bool:
        try:
            return bool(self._accept(group, record))
        except _ANY_FAULT as error:
            self._tell(error)
            return False

    def _tell(self, error: BaseException) -> None:
        now_s = self._seconds()
        if self._told_s is None:
            _log.failure("filter {name} raised", name=self._name)
            self._told_s = now_s
            return
        self._untold += 1
        if now_s - self._told_s < TELL_EVERY_S:
            return
        _log.error(
            "filter {name} raised {count} more times, the last time {error}",
            name=self._name,
            count=self._untold,
            error=repr(error),
        )
        self._told_s, self._untold = now_s, 0


class Filters:
    """Loads each filter once; without a folder of filters none is active."""

    def __init__(
        self,
        topics: Topics,
        folder: Path | None,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        self._topics = topics
        self._folder = folder
        self._seconds = seconds
        self._active = False
        self._loaded: dict[str, Accept] = {}
        self._not_ours = frozenset(sys.modules)
        self._look_for_folder()

    def _look_for_folder(self) -> None:
        # Once active it stays so: a folder that vanishes must not lift the filters.
        if self._active or self._folder is None or not self._folder.is_dir():
            return
        self._active = True
        if str(self._folder) not in sys.path:
            sys.path.append(str(self._folder))

    def find(self, topic: str, group: str) -> Accept | None:
        """The group's filter for a topic, None without one; raises FilterFailed."""
        if not self._active:
            return None
        settings = self._topics.find(topic)
        name = settings.filters.get(group) if settings is not None else None
        if name is None:
            return None
        return self._filter(name)

    def _filter(self, name: str) -> Accept:
        if name not in self._loaded:
            self._loaded[name] = _Guarded(name, _load(name), self._seconds)
        return self._loaded[name]

    def forget(self) -> None:
        """Let every filter be loaded anew, with edited modules of the folder."""
        self._loaded.clear()
        for name, module in list(sys.modules.items()):
            if name not in self._not_ours and self._is_in_folder(module):
                del sys.modules[name]
        self._look_for_folder()

    def _is_in_folder(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        places = [file] if file else list(getattr(module, "__path__", ()))
        folder = self._folder
        return folder is not None and any(
            Path(place).is_relative_to(folder) for place in places
        )

    def check(self) -> list[str]:
        """Load every filter that is configured; a sentence for each that cannot be.

        Without a folder one sentence says that no group is filtered.
        """
        wanted = list(self._configured())
        if not wanted:
            return []
        if not self._active:
            where = f"{self._folder} is no directory" if self._folder else "not set"
            topics = ", ".join(dict.fromkeys(topic for topic, _, _ in wanted))
            return [
                f"filters of {topics} are not used, every group gets everything: "
                f"appClassPath: {where}"
            ]
        return list(self._unusable(wanted))

    def _configured(self) -> Iterator[tuple[str, str, str]]:
        """(topic section, group, dotted name) of each filter."""
        for topic, settings in self._topics.settings.topics.items():
            for group, name in settings.filters.items():
                yield topic, group, name

    def _unusable(self, wanted: list[tuple[str, str, str]]) -> Iterator[str]:
        for topic, group, name in wanted:
            try:
                self._filter(name)
            except FilterFailed as error:
                yield (
                    f"topic {topic}, group {group}: {error}; gets of this group are "
                    "answered 500"
                )


def _load(name: str) -> Accept:
    module_name, _, attribute = name.rpartition(".")
    # A stale bytecode file would hide an edit within the same second.
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        invalidate_caches()
        found = getattr(import_module(module_name), attribute)
        accept = found() if isinstance(found, type) else found
        accept = getattr(accept, "accept", accept)
    except _ANY_FAULT as error:
        raise FilterFailed(f"cannot load filter {name}: {error!r}") from error
    finally:
        sys.dont_write_bytecode = writes_none
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
            first = accept(group, record)
        elif accept(group, record) is not first:
            break
        end = record.offset + record.size_bytes
    return AcceptedRun(0, end) if first else AcceptedRun(end, 0)
