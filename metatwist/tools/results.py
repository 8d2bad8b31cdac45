"""What `produce --print` says of each message."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred, succeed

from metatwist.client.errors import ClientError
from metatwist.client.message import SendResult
from metatwist.tools.descriptors import Writing
from metatwist.tools.ending import words_of
from metatwist.tools.lines import STDIN, Piece

MOST_WAITING = 10_000


def text_result(piece: Piece, outcome: SendResult | ClientError) -> str | None:
    """`<partition> <offset> <id>`; nothing for a failure, which stderr tells."""
    if isinstance(outcome, ClientError):
        return None
    return f"{outcome.partition} {outcome.offset} {outcome.message_id}"


def json_result(piece: Piece, outcome: SendResult | ClientError) -> str:
    """An object with the line, and what became of it."""
    members: dict[str, Any] = {"line": piece.number}
    if piece.source != STDIN:
        members["file"] = piece.source
    if isinstance(outcome, ClientError):
        members["error"] = words_of(outcome)
        members["outcome_unknown"] = outcome.outcome_unknown
    else:
        members["partition"] = str(outcome.partition)
        members["offset"] = str(outcome.offset)
        members["id"] = str(outcome.message_id)
    return json.dumps(members)


class ResultPrinter:
    """Writes lines to a descriptor in the background, in their order.

    `problem` is why it cannot; that nobody reads any more is none.
    """

    def __init__(self, reactor: Any, descriptor: int) -> None:
        self.problem: OSError | None = None
        self._writing = Writing(reactor, descriptor)
        self._lines: list[str] = []
        self._under_way: Deferred[None] | None = None
        self._is_broken = False

    @property
    def is_crowded(self) -> bool:
        """Whether its reader does not keep up."""
        return len(self._lines) > MOST_WAITING

    def add(self, line: str) -> None:
        """Write it soon, or not at all once writing has failed."""
        if self._is_broken:
            return
        self._lines.append(line)
        if self._under_way is None:
            self._under_way = Deferred.fromCoroutine(self._write())

    async def _write(self) -> None:
        try:
            while self._lines:
                lines, self._lines = self._lines, []
                await self._writing.write([f"{one}\n".encode() for one in lines])
        except OSError as error:
            self._is_broken = True
            self._lines.clear()
            if not isinstance(error, BrokenPipeError):
                self.problem = error
        finally:
            self._under_way = None

    def settle(self) -> Deferred[None]:
        """Fires when all is written that can be. Cancelling gives up the rest."""
        return self._under_way or succeed(None)
