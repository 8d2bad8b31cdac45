"""The answers of one connection, in the order of its requests.

An entry waits for its batch, or is work to do when its turn comes, so that a get behind
a put sees that put. `version` and `stats` do not pass through here: they may overtake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from metatwist.broker.commit import STORED, WAITING, Batch

Work = Callable[[], None]
Entry = tuple[Batch | None, int, Any]


class ReplyQueue:
    """Entries are (batch, opaque, text) for a put, (None, 0, work) for the rest.

    `write` sends bytes; `failed(batch, opaque)` gives the answer to a put that was not
    stored.
    """

    __slots__ = ("_failed", "_write", "add", "entries")

    def __init__(
        self, write: Callable[[bytes], None], failed: Callable[[Batch, int], bytes]
    ) -> None:
        self.entries: deque[Entry] = deque()
        self.add = self.entries.append
        self._write = write
        self._failed = failed

    def __len__(self) -> int:
        return len(self.entries)

    def do(self, work: Work) -> None:
        """Answer something else than a put when all before it is answered."""
        if self.entries:
            self.add((None, 0, work))
        else:
            work()

    def say(self, answer: bytes) -> None:
        """Send an answer that is known when all before it is answered."""
        self.do(lambda: self._write(answer))

    def send_settled(self) -> None:
        """Send the answers that no longer wait for anything, in one write."""
        entries = self.entries
        texts: list[str] = []
        while entries:
            batch, opaque, answer = entries[0]
            if batch is None:
                self._write_all(texts)
                entries.popleft()
                answer()
                continue
            if batch.state == WAITING:
                break
            entries.popleft()
            if batch.state == STORED:
                texts.append(answer)
            else:
                self._write_all(texts)
                self._write(self._failed(batch, opaque))
        self._write_all(texts)

    def _write_all(self, texts: list[str]) -> None:
        if texts:
            self._write("".join(texts).encode("ascii"))
            texts.clear()
