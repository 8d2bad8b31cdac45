"""fsync by the kernel's own workers, through io_uring.

A Python thread that waits for fsync has to fight for the interpreter's lock when it
wakes; a kernel worker does not, and it runs on whichever core is free. Completions
raise an event descriptor that the reactor watches. Only what this needs is bound: three
system calls by ctypes, and the two rings that io_uring shares by mmap.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from contextlib import suppress

_SETUP, _ENTER, _REGISTER = 425, 426, 427
_PARAMETERS = struct.Struct("<10I8IQ8IQ")
_ENTRY = struct.Struct("<BBHiQQIIQ24x")
_COMPLETION = struct.Struct("<QiI")
_NUMBER = struct.Struct("<I")
_SINGLE_MAP = 1
_ENTRIES_OFFSET = 0x10000000
_FSYNC = 3
_REGISTER_EVENT_FD = 4


class IoRing:
    """Submits fsyncs and reports them done, at most `depth`, a power of two, at a time.

    The constructor raises OSError where the system does not offer it.
    """

    def __init__(self, depth: int) -> None:
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        parameters = ctypes.create_string_buffer(_PARAMETERS.size)
        self._shared: list[mmap.mmap] = []
        self._fd = self._call(_SETUP, ctypes.c_uint(depth), parameters)
        fields = _PARAMETERS.unpack(parameters)
        if not fields[5] & _SINGLE_MAP:
            os.close(self._fd)
            raise OSError(errno.ENOSYS, "io_uring of an old kernel")
        self.event_fd = -1
        try:
            self._share(fields)
        except OSError:
            self.close()
            raise
        self._depth = depth
        self._under_way = 0
        self._queued = 0

    def _share(self, fields: tuple[int, ...]) -> None:
        self._map(fields[0], fields[1], fields[10:18], fields[19:27])
        self.event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        event_fd = ctypes.c_int(self.event_fd)
        self._call(
            _REGISTER,
            ctypes.c_int(self._fd),
            ctypes.c_uint(_REGISTER_EVENT_FD),
            ctypes.byref(event_fd),
            ctypes.c_uint(1),
        )

    def _map(
        self,
        sq_entries: int,
        cq_entries: int,
        sq_offsets: tuple[int, ...],
        cq_offsets: tuple[int, ...],
    ) -> None:
        """Share the rings; where their parts lie is what the set-up answered."""
        _, self._sq_tail, sq_mask, _, _, _, self._sq_array, _ = sq_offsets
        self._cq_head, self._cq_tail, cq_mask, _, _, self._cqes, _, _ = cq_offsets
        sq_end = self._sq_array + _NUMBER.size * sq_entries
        cq_end = self._cqes + _COMPLETION.size * cq_entries
        self._rings = mmap.mmap(self._fd, max(sq_end, cq_end))
        self._shared.append(self._rings)
        self._entries = mmap.mmap(
            self._fd, _ENTRY.size * sq_entries, offset=_ENTRIES_OFFSET
        )
        self._shared.append(self._entries)
        self._sq_mask, self._cq_mask = self._read(sq_mask), self._read(cq_mask)

    def _call(self, number: int, *arguments: object) -> int:
        result: int = self._syscall(ctypes.c_long(number), *arguments)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    def _read(self, at: int) -> int:
        number: int = _NUMBER.unpack_from(self._rings, at)[0]
        return number

    @property
    def room(self) -> int:
        """How many more may be queued now."""
        return self._depth - self._under_way

    def fsync(self, fd: int, number: int) -> None:
        """Queue an fsync of `fd`, to be reported as `number`; `submit` begins it."""
        tail = self._read(self._sq_tail)
        slot = tail & self._sq_mask
        _ENTRY.pack_into(
            self._entries, _ENTRY.size * slot, _FSYNC, 0, 0, fd, 0, 0, 0, 0, number
        )
        _NUMBER.pack_into(self._rings, self._sq_array + 4 * slot, slot)
        _NUMBER.pack_into(self._rings, self._sq_tail, (tail + 1) & 0xFFFFFFFF)
        self._queued += 1
        self._under_way += 1

    def submit(self) -> bool:
        """Begin all that was queued, in one system call if the kernel has room.

        True when all has begun; otherwise call it again soon.
        """
        while self._queued:
            try:
                begun = self._call(
                    _ENTER,
                    ctypes.c_int(self._fd),
                    ctypes.c_uint(self._queued),
                    ctypes.c_uint(0),
                    ctypes.c_uint(0),
                    None,
                    ctypes.c_size_t(0),
                )
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EBUSY, errno.EINTR):
                    raise
                return False
            if not begun:
                return False
            self._queued -= begun
        return True

    def completed(self) -> list[tuple[int, int]]:
        """(number, 0 or errno) of each fsync that has ended since the last call."""
        with suppress(BlockingIOError):
            os.read(self.event_fd, 8)
        head, tail = self._read(self._cq_head), self._read(self._cq_tail)
        done = []
        while head != tail:
            at = self._cqes + _COMPLETION.size * (head & self._cq_mask)
            number, result, _ = _COMPLETION.unpack_from(self._rings, at)
            done.append((number, -result if result < 0 else 0))
            head = (head + 1) & 0xFFFFFFFF
        _NUMBER.pack_into(self._rings, self._cq_head, head)
        self._under_way -= len(done)
        return done

    def close(self) -> None:
        """Give all back; what is under way goes on, unreported."""
        for shared in self._shared:
            shared.close()
        self._shared.clear()
        for fd in (self._fd, self.event_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self.event_fd = -1
