"""What both ends of the control socket must agree on, standard library only.

The broker listens on `control.sock` in its data directory; `metatwist admin` connects
to it. The kernel takes 107 bytes of path for a unix socket and no more; a deeper
path is named through an open descriptor of its directory instead.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

CONTROL_SOCKET_NAME = "control.sock"
MAX_LINE_BYTES = 1 << 20
MAX_ADDRESS_BYTES = 107


class ShortAddress:
    """A name of `path` that fits into a unix socket address while this is open.

    `text` is the path itself where it fits. Otherwise it leads through a descriptor
    of the parent directory, which stays open until `close`. Raises `OSError` when
    that directory cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._directory_fd: int | None = None
        self.text = str(path)
        if len(os.fsencode(path)) > MAX_ADDRESS_BYTES:
            self._directory_fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            self.text = f"/proc/self/fd/{self._directory_fd}/{path.name}"

    def close(self) -> None:
        """Give the descriptor back; `text` is of no use after this."""
        if self._directory_fd is not None:
            os.close(self._directory_fd)
            self._directory_fd = None

    def __enter__(self) -> str:
        return self.text

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
