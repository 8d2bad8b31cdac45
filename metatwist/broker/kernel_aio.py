"""fsync in the kernel's own workers, by Linux asynchronous I/O.

A thread that waits for fsync has to fight for the interpreter's lock when it wakes; the
kernel's worker does not. Completions raise an event descriptor that the reactor
watches. Only the four system calls that this needs are bound, through ctypes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from struct import Struct

_NUMBERS = {  # io_setup, io_destroy, io_submit, io_getevents
    "x86_64": (206, 207, 209, 208),
    "aarch64": (0, 1, 2, 4),
}
# data, key, rw flags, opcode, priority, descriptor, buffer, bytes, offset, reserved,
# flags, event descriptor
_IOCB = Struct("<QIiHhIQQqQII")
_EVENT = Struct("<QQqq")
_FSYNC = 2
_SIGNAL_EVENT_FD = 1


class KernelAio:
    """Submits fsyncs and reports them done; at most `depth` at a time.

    The constructor raises OSError where the system does not offer it.
    """

    def __init__(self, depth: int) -> None:
        numbers = _NUMBERS.get(platform.machine())
        if numbers is None or not hasattr(os, "eventfd"):
            raise OSError(errno.ENOSYS, "no asynchronous fsync on this system")
        self._setup, self._destroy, self._submit, self._getevents = numbers
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        context = ctypes.c_ulong(0)
        self._call(self._setup, ctypes.c_uint(depth), ctypes.byref(context))
        self._context = context
        self.event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._free = list(range(depth))
        self._blocks = [ctypes.create_string_buffer(_IOCB.size) for _ in range(depth)]
        self._pointers = [
            (ctypes.c_void_p * 1)(ctypes.addressof(block)) for block in self._blocks
        ]
        self._events = ctypes.create_string_buffer(_EVENT.size * depth)
        self._depth = depth

    def _call(self, number: int, *arguments: object) -> int:
        result: int = self._syscall(ctypes.c_long(number), *arguments)
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    @property
    def has_room(self) -> bool:
        """False while `depth` fsyncs are under way."""
        return bool(self._free)

    def fsync(self, fd: int) -> int:
        """Begin to sync `fd`; returns the number it will be reported under.

        Raises OSError when the system or the file's file system refuses.
        """
        slot = self._free[-1]
        _IOCB.pack_into(
            self._blocks[slot], 0, slot, 0, 0, _FSYNC, 0, fd, 0, 0, 0, 0,
            _SIGNAL_EVENT_FD, self.event_fd,
        )  # fmt: skip
        self._call(self._submit, self._context, ctypes.c_long(1), self._pointers[slot])
        return self._free.pop()

    def completed(self) -> list[tuple[int, int]]:
        """(number, 0 or errno) of each fsync that has ended since the last call."""
        try:
            os.read(self.event_fd, 8)
        except BlockingIOError:
            return []
        count = self._call(
            self._getevents,
            self._context,
            ctypes.c_long(0),
            ctypes.c_long(self._depth),
            self._events,
            None,
        )
        done = []
        for at in range(count):
            slot, _, result, _ = _EVENT.unpack_from(self._events, at * _EVENT.size)
            self._free.append(slot)
            done.append((slot, -result if result < 0 else 0))
        return done

    def close(self) -> None:
        """Wait for what is under way and give all back."""
        self._call(self._destroy, self._context)
        os.close(self.event_fd)
