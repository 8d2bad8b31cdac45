"""Command type to function, for all commands but the put, which has its own path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.logger import Logger

from metatwist.broker.gets import GetPath, IOutput
from metatwist.broker.numbers import BrokerNumbers
from metatwist.broker.polls import Polls
from metatwist.broker.puts import PutPath
from metatwist.broker.replies import ReplyQueue
from metatwist.broker.settings import BrokerSettings
from metatwist.broker.stats import Stats
from metatwist.broker.topics import Topics
from metatwist.wire.commands import (
    GetCommand,
    OffsetCommand,
    PollCommand,
    ResultReply,
    StatsCommand,
    SyncCommand,
    TransactionCommand,
    VersionCommand,
)

NO_SYNC = "This broker is no synchronous replica: SyncCommand is not handled"
_TRANSACTION_VERBS = {
    "BEGIN": "beginTransaction",
    "PREPARE": "prepareTransaction",
    "COMMIT_ONE_PHASE": "commitTransaction",
    "COMMIT_TWO_PHASE": "commitTransaction",
    "ROLLBACK": "rollbackTransaction",
    "FORGET": "forgetTransaction",
    "RECOVER": "getPreparedTransactions",
}


class IConnection(IOutput, Protocol):
    """What a command needs of its connection."""

    replies: ReplyQueue


class Dispatch:
    """Answers every command exactly once, except `END`, which has no answer."""

    _log = Logger()

    def __init__(
        self,
        topics: Topics,
        puts: PutPath,
        gets: GetPath,
        stats: Stats,
        numbers: BrokerNumbers,
        polls: Polls,
    ) -> None:
        self._topics = topics
        self.puts = puts
        self.numbers = numbers
        self.polls = polls
        self._gets = gets
        self._stats = stats
        self._functions: dict[type, Callable[[Any, IConnection], None]] = {
            GetCommand: self._get,
            PollCommand: self._poll,
            OffsetCommand: self._offset,
            VersionCommand: self._version,
            StatsCommand: self._answer_stats,
            TransactionCommand: self._transaction,
            SyncCommand: self._sync,
        }

    @property
    def settings(self) -> BrokerSettings:
        """Those in force."""
        return self._topics.settings

    def answer(self, command: Any, connection: IConnection) -> None:
        """Answer a command; a stray `result` or `value` is ignored (spec 1.8)."""
        function = self._functions.get(type(command))
        if function is not None:
            self._guarded(function, command, connection)

    def _guarded(
        self,
        function: Callable[[Any, IConnection], None],
        command: Any,
        connection: IConnection,
    ) -> None:
        """Let no error out, which would end the turn of all connections."""
        try:
            function(command, connection)
        except Exception as error:
            self._log.failure("cannot answer {command}", command=command)
            text = f"internal error: {type(error).__name__}: {error}"
            # Its turn has come, so it must not queue behind what came later.
            connection.write(ResultReply(500, command.opaque, text.encode()).encode())

    def _say(self, opaque: int, code: int, text: str, connection: IConnection) -> None:
        connection.replies.say(ResultReply(code, opaque, text.encode()).encode())

    def _get(self, command: GetCommand, connection: IConnection) -> None:
        if connection.replies.entries:
            connection.replies.do(
                lambda: self._guarded(self._gets.get, command, connection)
            )
        else:
            self._gets.get(command, connection)

    def _poll(self, command: PollCommand, connection: IConnection) -> None:
        """May overtake: what waits for data must not hold up other answers."""
        get = command.get
        self.polls.take(
            command,
            connection,
            lambda: self._guarded(self._gets.get, get, connection),
        )

    def _offset(self, command: OffsetCommand, connection: IConnection) -> None:
        connection.replies.do(
            lambda: self._guarded(self._gets.offset, command, connection)
        )

    def _version(self, command: VersionCommand, connection: IConnection) -> None:
        text = self._stats.version.encode()
        connection.write(ResultReply(200, command.opaque, text).encode())

    def _answer_stats(self, command: StatsCommand, connection: IConnection) -> None:
        code, body = self._stats.answer(command.item)
        connection.write(ResultReply(code, command.opaque, body).encode())

    def _sync(self, command: SyncCommand, connection: IConnection) -> None:
        self._say(command.opaque, 503, NO_SYNC, connection)

    def _transaction(
        self, command: TransactionCommand, connection: IConnection
    ) -> None:
        if command.kind == "END":
            return
        text = f"Unsupported {_TRANSACTION_VERBS[command.kind]}"
        self._say(command.opaque, 500, text, connection)
