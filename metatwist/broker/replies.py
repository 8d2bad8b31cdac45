"""The answers of one connection, in the order of its requests.

The puts that came in one read are answered together, in one write, once all of them are
stored or have failed. What else was asked is done when its turn comes, so that a get
behind a put sees that put. `version`, `stats` and polls do not pass through here: they
may overtake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from metatwist.broker.batch import FAILED, Batch, PutGroup

Work = Callable[[], None]


class ReplyQueue:
    """Groups of puts, and work that waits for its turn.

    `write` sends bytes; `failed(batch, opaque)` gives the text to answer a put that was
    not stored; `abort` ends the connection. While `paused` nothing is sent: the peer
    does not read.
    """

    __slots__ = ("_failed", "_write", "abort", "entries", "paused")

    def __init__(
        self,
        write: Callable[[bytes], None],
        failed: Callable[[Batch, int], str],
        abort: Callable[[], None],
    ) -> None:
        self.entries: deque[PutGroup | Work] = deque()
        self.abort = abort
        self.paused = False
        self._write = write
        self._failed = failed

    def do(self, work: Work) -> None:
        """Answer something else than a put when all before it is answered."""
        if self.entries:
            self.entries.append(work)
        else:
            work()

    def say(self, answer: bytes) -> None:
        """Send an answer that is known when all before it is answered."""
        self.do(lambda: self._write(answer))

    def send_ready(self) -> None:
        """Send the answers that no longer wait for anything, in one write."""
        entries = self.entries
        texts: list[str] = []
        while entries and not self.paused:
            entry = entries[0]
            if isinstance(entry, PutGroup):
                if entry.waiting:
                    break
                entries.popleft()
                if entry.failed:
                    texts += self._after_failure(entry)
                else:
                    texts += [text for _, _, text in entry.answers]
            else:
                self._send(texts)
                entries.popleft()
                entry()
        self._send(texts)

    def _after_failure(self, group: PutGroup) -> list[str]:
        return [
            text
            if batch is None or batch.state != FAILED
            else self._failed(batch, opaque)
            for batch, opaque, text in group.answers
        ]

    def _send(self, texts: list[str]) -> None:
        if texts:
            self._write("".join(texts).encode())
            texts.clear()
