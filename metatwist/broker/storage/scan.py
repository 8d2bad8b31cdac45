"""Walk a segment record by record: what is whole, what is not, where it ends.

Used for the last segment at start, and for sealed segments that no sidecar vouches
for. A bad record does not end the walk: the next whole record after it is looked for,
so one flipped bit costs one record and not the rest of the segment (spec storage
10.3, 18). A record of zeros only is never taken for a message (D-6), nor a record that
somebody sent within a payload: our ids rise, and the one inside is the older.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from attrs import Factory, define

from metatwist.message_times import is_wall_clock
from metatwist.wire.records import HEADER_BYTES, checksum, unpack_header

ReadAt = Callable[[int, int], bytes]
_WINDOW_BYTES = 256 * 1024
_ZERO_HEADER = bytes(HEADER_BYTES)
_NO_MESSAGE = bytes(16)  # no payload and id 0, which no broker gives
_first_nonzero = re.compile(rb"[^\0]").search
# After damage only records below 16 MiB are found again: the first byte of their
# length is zero, which makes the search cheap.
_RESYNC_LIMIT = 1 << 24
# One longer than this is only checked when what follows looks like a header too. Else
# a mebibyte of random bytes would make us read gibibytes.
_LONG_BYTES = _WINDOW_BYTES
_SURE_RUN = 8


class IdBounds(NamedTuple):
    """What ids a walk may meet: above `last`, which came before it, and at most
    `highest`, the id of the file's last modification; 0 where not known."""

    last: int = 0
    highest: int = 0


NO_BOUNDS = IdBounds()


@define
class Scan:
    """What a walk found; positions are within the file.

    `end`: behind the last whole record. `messages`: whole records from where the walk
    began. `bad`: ranges before `end` that are no records. `marks`: (id, position) of a
    record every `step_bytes`, the first one included.
    """

    end: int
    messages: int = 0
    last_id: int = 0
    bad: list[tuple[int, int]] = Factory(list)
    marks: list[tuple[int, int]] = Factory(list)


class _Window:
    """A part of the file in memory, moved along as the walk goes."""

    def __init__(
        self, read: ReadAt, size_bytes: int, pause: Callable[[], None] | None
    ) -> None:
        self._read = read
        self._pause = pause
        self.size_bytes = size_bytes
        self._start = 0
        self._data = b""

    def at(self, position: int, size: int) -> tuple[bytes, int]:
        """(data, index): `size` bytes at `position`, or all up to the file's end."""
        index = position - self._start
        if index < 0 or index + size > len(self._data):
            if self._pause is not None:
                self._pause()
            wanted = max(size, _WINDOW_BYTES)
            wanted = min(wanted, self.size_bytes - position)
            self._data, self._start, index = self._read(position, wanted), position, 0
        return self._data, index

    def glance(self, position: int, size: int) -> bytes:
        """Bytes far ahead; the window stays where it is."""
        return self._read(position, min(size, self.size_bytes - position))


def scan(
    read: ReadAt,
    begin: int,
    size_bytes: int,
    step_bytes: int,
    pause: Callable[[], None] | None = None,
    ids: IdBounds = NO_BOUNDS,
) -> Scan:
    """Walk from `begin`, a record boundary, to `size_bytes`.

    `read(position, size)` gives bytes of the file. `pause` is called before each read
    of the disk, so that a walk in the background can give way.
    """
    window = _Window(read, size_bytes, pause)
    found = Scan(end=begin, last_id=ids.last)
    position, next_mark = begin, begin
    while position < size_bytes:
        record = _record_at(window, position)
        if record is None:
            bounds = IdBounds(found.last_id, ids.highest)
            newest_id = _newest_id(window, position, bounds)
            resumed = _next_record(window, position + 1, newest_id)
            if resumed is None:
                break
            found.bad.append((position, resumed))
            position = resumed
            continue
        message_id, following = record
        if position >= next_mark:
            found.marks.append((message_id, position))
            next_mark = position + step_bytes
        found.messages += 1
        found.last_id = message_id
        found.end = position = following
    return found


def is_record(read: ReadAt, position: int, size_bytes: int) -> bool:
    """True when a whole, good record starts at a position of the file."""
    return _record_at(_Window(read, size_bytes, None), position) is not None


def _record_at(window: _Window, position: int) -> tuple[int, int] | None:
    """(message id, position behind it) of a whole, good record, or None."""
    if window.size_bytes - position < HEADER_BYTES:
        return None
    data, index = window.at(position, HEADER_BYTES)
    if len(data) - index < HEADER_BYTES:
        return None
    length, crc, message_id, _ = unpack_header(data, index)
    following = position + HEADER_BYTES + length
    if length < 0 or following > window.size_bytes:
        return None
    if not length and data.startswith(_NO_MESSAGE, index):
        return None
    data, index = window.at(position, HEADER_BYTES + length)
    start = index + HEADER_BYTES
    if checksum(data[start : start + length]) != crc:
        return None
    return message_id, following


def _newest_id(window: _Window, position: int, ids: IdBounds) -> int:
    """The id of the damaged record, if that can be right, else the last one's.

    Ids are in no checksum. Too high a one taken for right would hide good records
    behind it, so none counts that is later than the file's last modification.
    """
    last_id = ids.last if not ids.highest or ids.last <= ids.highest else 0
    data, index = window.at(position, HEADER_BYTES)
    if len(data) - index < HEADER_BYTES or not is_wall_clock(last_id):
        return last_id
    message_id: int = unpack_header(data, index)[2]
    return message_id if last_id < message_id <= ids.highest else last_id


def _next_record(window: _Window, position: int, newest_id: int) -> int | None:
    """Where the next good record starts at or after `position`, if anywhere.

    One with an id of wall-clock time counts only when that is above `newest_id`.
    """
    while window.size_bytes - position >= HEADER_BYTES:
        data, index = window.at(position, HEADER_BYTES)
        base = position - index
        last = len(data) - HEADER_BYTES
        while index <= last:
            index = data.find(b"\0", index)
            if index < 0 or index > last:
                break
            if not data.startswith(_ZERO_HEADER, index):
                if _starts_here(window, base + index, newest_id):
                    return base + index
                index += 1
                continue
            nonzero = _first_nonzero(data, index)
            end_of_zeros = nonzero.start() if nonzero else len(data)
            index = max(index + 1, end_of_zeros - HEADER_BYTES + 1)
        position = base + last + 1
    return None


def _starts_here(window: _Window, position: int, newest_id: int) -> bool:
    """True when a record starts at a place where any bytes may be.

    An empty record is eight zero bytes and proves little by itself: one with a payload
    has to follow, or as many empty ones as chance does not bring about.
    """
    data, index = window.at(position, HEADER_BYTES)
    if 0 < unpack_header(data, index)[2] <= newest_id:
        return False
    for _ in range(_SURE_RUN):
        following = _sound_until(window, position)
        if following is None:
            return False
        if following - position > HEADER_BYTES:
            return True
        position = following
    return True


def _sound_until(window: _Window, position: int) -> int | None:
    """Where a record that may start here ends; None when none does."""
    if window.size_bytes - position < HEADER_BYTES:
        return None
    data, index = window.at(position, HEADER_BYTES)
    length, crc, _, _ = unpack_header(data, index)
    if not 0 <= length < _RESYNC_LIMIT or crc < 0:
        return None
    following = position + HEADER_BYTES + int(length)
    if following > window.size_bytes:
        return None
    if length > _LONG_BYTES and not _header_may_be_at(window, following):
        return None
    return following if _record_at(window, position) is not None else None


def _header_may_be_at(window: _Window, position: int) -> bool:
    data = window.glance(position, HEADER_BYTES)
    if len(data) < HEADER_BYTES:
        return True
    length, crc, _, _ = unpack_header(data)
    return bool(0 <= length < _RESYNC_LIMIT and crc >= 0)
