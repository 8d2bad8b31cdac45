"""What an answer to a put means, and whether the message may be put again.

| answer or event | outcome | stored? | put again |
|---|---|---|---|
| 200 `<id> <partition> <offset>` | SendResult | yes | - |
| 400 | BadRequest | no | no |
| 403, partition closed | Forbidden | no | yes, another partition first |
| 404 | NothingThere | no | yes, another partition first |
| 500 | ServerFailed | no | no: unknown topic, bad checksum, disk |
| 503 | ServerUnavailable | no | yes, another broker first |
| 504 | ServerTimedOut | unknown | if `may_duplicate` |
| other codes | RequestRefused | no | no |
| another kind of answer | UnexpectedReply | unknown | no |
| no connection, never sent | NotConnected | no | yes, another broker first |
| connection lost | ConnectionLost | unknown | if `may_duplicate` |
| no answer in time | RequestTimedOut | unknown | if `may_duplicate` |
| routes known, none registered | NoPartition | no | waits for one |
| no broker connected in time | NotConnected | no | waits for one |
| selector raised, wrong answer | SelectorFailed | no | no |
| no room in time | BufferFull | no | waits for room |
| stopped | ClientStopped | unknown if under way | no |

(spec client 5.4, spec wire-protocol 1.9.) An error that ends a message says
`outcome_unknown` when any of its puts left that open.
"""

from __future__ import annotations

from metatwist.client.errors import (
    ClientError,
    Forbidden,
    NothingThere,
    RequestRefused,
    UnexpectedReply,
    Where,
)
from metatwist.client.interfaces import Answer
from metatwist.coordination.names import PartitionName
from metatwist.wire.commands import ResultReply

_MOST_QUOTED = 200


def error_of(answer: Answer, where: Where) -> ClientError:
    """Why an answer is no success."""
    if isinstance(answer, ClientError):
        return answer.at(where.topic, where.partition)
    if isinstance(answer, ResultReply) and answer.code != 200:
        text = answer.body.decode("utf-8", "replace")
        return RequestRefused.of(answer.code, text, where)
    quoted = repr(answer)[:_MOST_QUOTED]
    return UnexpectedReply(f"a put was answered by {quoted}", where)


def may_put_again(error: ClientError, may_duplicate: bool) -> bool:
    """By the table above."""
    return error.retriable and (may_duplicate or not error.outcome_unknown)


class Trouble:
    """What has gone wrong with one message so far: `puts` that failed, the last error,
    and what to keep away from while there is anything else."""

    __slots__ = ("_brokers", "_closed", "error", "puts", "unknown")

    def __init__(self) -> None:
        self.puts = 0
        self.error: ClientError | None = None
        self.unknown = False
        self._closed: set[PartitionName] = set()
        self._brokers: set[int] = set()

    def add(self, error: ClientError, partition: PartitionName) -> None:
        """A put to a partition failed."""
        self.puts += 1
        self.error = error
        self.unknown = self.unknown or error.outcome_unknown
        if isinstance(error, (Forbidden, NothingThere)):
            self._closed.add(partition)
        else:
            self._brokers.add(partition.broker_id)

    def better(self, offered: tuple[PartitionName, ...]) -> tuple[PartitionName, ...]:
        """Those that nothing is known against."""
        brokers, closed = self._brokers, self._closed
        return tuple(
            one for one in offered if one.broker_id not in brokers and one not in closed
        )

    def last_word(self, error: ClientError) -> ClientError:
        """The error to end with: it may not sound more certain than all that was."""
        if self.unknown and not error.outcome_unknown:
            error.outcome_unknown = True
        return error
