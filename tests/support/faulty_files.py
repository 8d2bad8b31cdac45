"""A file system that fails on demand or at random, the same way for the same seed.

The files are real. Only calls are refused or cut short, where the system could do the
same: between any two of them the directory looks as it would after a real failure.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import define

from metatwist.broker.storage.files import FileOps, FileStatus


@define
class Fault:
    """Let a call fail `times` times, after it has gone well `after` times, where its
    path contains `matching` (calls on descriptors match the path they were opened by).
    """

    call: str
    code: int
    times: int
    after: int
    matching: str


class FaultyFiles(FileOps):
    """`FileOps` with faults.

    Names of calls are those of `FileOps`; "write" stands for `write_some`, which leaves
    a random part behind before it fails. `calls` counts what was asked, `open_fds` is
    what is open now.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._faults: list[Fault] = []
        self._rates: Mapping[str, float] = {}
        self._paths: dict[int, str] = {}
        self.space_bytes: int | None = None
        self.short_writes = False
        self.calls: Counter[str] = Counter()
        self.read_bytes = 0

    def __del__(self) -> None:
        # Tests that end a broker as a crash does leave its descriptors.
        for fd in self._paths:
            os.close(fd)

    @property
    def open_fds(self) -> int:
        """Descriptors that are open."""
        return len(self._paths)

    # -- faults -------------------------------------------------------------------

    def fail(
        self,
        call: str,
        code: int = errno.EIO,
        times: int = 1,
        after: int = 0,
        matching: str = "",
    ) -> None:
        """Arm a fault."""
        self._faults.append(Fault(call, code, times, after, matching))

    def fail_at_random(self, **rates: float) -> None:
        """Let calls fail with these probabilities from now on."""
        self._rates = rates

    def heal(self) -> None:
        """No more faults, and space again."""
        self._faults.clear()
        self._rates = {}
        self.space_bytes = None
        self.short_writes = False

    def _due(self, call: str, path: str) -> int | None:
        """The errno with which this call has to fail, if it has to."""
        self.calls[call] += 1
        for fault in self._faults:
            if fault.call == call and fault.matching in path and fault.times:
                if fault.after:
                    fault.after -= 1
                    continue
                fault.times -= 1
                return fault.code
        rate = self._rates.get(call, 0)
        return errno.EIO if rate and self._random.random() < rate else None

    def _check(self, call: str, path: Path | str) -> None:
        code = self._due(call, str(path))
        if code is not None:
            raise OSError(code, os.strerror(code), str(path))

    def _room(self, wanted: int) -> int:
        return wanted if self.space_bytes is None else min(wanted, self.space_bytes)

    def _used(self, size: int) -> None:
        if self.space_bytes is not None:
            self.space_bytes -= size

    # -- descriptors --------------------------------------------------------------

    def open(self, path: Path, writable: bool) -> int:
        self._check("open", path)
        if writable and not path.exists():
            self._check("create", path)
        fd = super().open(path, writable)
        self._paths[fd] = str(path)
        return fd

    def open_directory(self, path: Path) -> int:
        fd = super().open_directory(path)
        self._paths[fd] = str(path)
        return fd

    def lock_directory(self, path: Path) -> int | None:
        fd = super().lock_directory(path)
        if fd is not None:
            self._paths[fd] = str(path)
        return fd

    def close(self, fd: int) -> None:
        super().close(fd)
        del self._paths[fd]

    def write_some(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        data = b"".join(buffers)
        code = self._due("write", self._paths[fd])
        if code is not None:
            torn = self._random.randrange(len(data)) if data else 0
            self._used(os.write(fd, data[:torn]))
            raise OSError(code, os.strerror(code))
        room = self._room(len(data))
        if not room and data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.short_writes and room > 1:
            room = self._random.randint(1, room)
        written = os.write(fd, data[:room])
        self._used(written)
        return written

    def read(self, fd: int, position: int, size: int) -> bytes:
        self._check("read", self._paths[fd])
        data = super().read(fd, position, size)
        self.read_bytes += len(data)
        return data

    def truncate(self, fd: int, size: int) -> None:
        self._check("truncate", self._paths[fd])
        self._used(size - os.fstat(fd).st_size)
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._check("sync", self._paths[fd])

    def sync_directory(self, path: Path) -> None:
        self._check("sync_directory", path)

    # -- names --------------------------------------------------------------------

    def readable(self, path: Path) -> bool:
        return self._due("readable", str(path)) is None

    def status(self, path: Path) -> FileStatus:
        self._check("status", path)
        return super().status(path)

    def entries(self, path: Path) -> Iterator[tuple[str, bool]]:
        self._check("entries", path)
        return super().entries(path)

    def make_directory(self, path: Path) -> list[Path]:
        self._check("make_directory", path)
        return super().make_directory(path)

    def remove(self, path: Path) -> None:
        self._check("remove", path)
        super().remove(path)

    def remove_tree(self, path: Path) -> None:
        self._check("remove_tree", path)
        super().remove_tree(path)

    def rename(self, source: Path, target: Path) -> None:
        self._check("rename", source)
        super().rename(source, target)

    def replace_text(self, path: Path, text: bytes) -> None:
        draft = path.with_name(path.name + ".tmp")
        room = self._room(len(text))
        self._used(draft.write_bytes(text[:room]))
        if room < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(draft))
        self._check("replace_text", path)
        os.replace(draft, path)

    def append_text(self, path: Path, text: bytes) -> None:
        # As the system does: a part may be written and no error come up.
        code = self._due("append_text", str(path))
        room = self._room(len(text))
        if code is not None:
            room = min(room, self._random.randrange(len(text)))
        super().append_text(path, text[:room])
        self._used(room)
        if code is not None:
            raise OSError(code, os.strerror(code), str(path))
