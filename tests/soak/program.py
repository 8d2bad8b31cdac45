"""A process with a client that sends and consumes, and keeps a journal of both.

    python -m tests.soak.program --zookeeper HOST:PORT --journal FILE --name NAME

The journal has a JSON object a line: `event` is `started`, `acked`, `failed` (with
`unknown`), `got`, or `stopped` (with `timers`, what is left in the reactor); `body` is
that of the message. SIGUSR1 ends the sending, SIGTERM all.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import globalLogBeginner, textFileLogObserver
from twisted.python.failure import Failure

from metatwist.client import (
    ClientError,
    ClientSettings,
    CommitSettings,
    ConnectionSettings,
    ConsumerSettings,
    DeliverySettings,
    Message,
    MetaClient,
    ProducerSettings,
    ReceivedMessage,
    in_thread_pool,
)
from metatwist.client.settings import Backoff

SECONDS_BETWEEN_SENDS = 0.02
MOST_UNANSWERED_BYTES = 4 << 20
GROUP = "soak"


class Journal:
    """See the module; what was written is there even after a kill."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, event: str, **more: object) -> None:
        """One line."""
        line = json.dumps({"event": event, **more}) + "\n"
        os.write(self._file, line.encode())


class Listener:
    """Mostly prompt; some messages are slow, some on a thread, some fail at first."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._failed: set[str] = set()
        self._on_thread = in_thread_pool(reactor, lambda message: len(message.payload))

    def take(self, message: ReceivedMessage) -> Deferred[None] | None:
        """Listen."""
        body = message.body.split(b" ")[0].decode()
        number = int(body.rsplit("-", 1)[1])
        done = partial(self._journal.write, "got", body=body)
        if number % 97 == 0 and body not in self._failed:
            self._failed.add(body)
            raise ValueError(f"{body} fails at first")
        if number % 89 == 0:
            return deferLater(reactor, 0.05, done)
        if number % 101 == 0:
            return self._on_thread(message).addCallback(lambda _: done())
        if number % 997 == 0 and body not in self._failed:
            self._failed.add(body)
            return Deferred()
        done()
        return None


class Program:
    """See the module."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._journal = Journal(options.journal)
        self._count = 0
        self._client = MetaClient(
            reactor, zookeeper=options.zookeeper, settings=self._settings()
        )
        # Its own bound stops the sending long before memory is short.
        self._producer = self._client.producer(
            ProducerSettings(most_buffered_bytes=MOST_UNANSWERED_BYTES)
        )
        self._sending = LoopingCall(self._send)

    def _settings(self) -> ClientSettings:
        options = self._options
        via = TCP4ClientEndpoint(reactor, "127.0.0.1", options.via, timeout=2)
        return ClientSettings(
            session_timeout_s=options.session_s,
            connection=ConnectionSettings(
                connect_timeout_s=2,
                request_timeout_s=3,
                heartbeat_idle_s=1,
                heartbeat_timeout_s=1,
                most_missed_heartbeats=2,
                most_reconnect_pause_s=0.5,
            ),
            recover_directory=options.journal.parent / "recover",
            endpoint_for=(lambda _: via) if options.via else None,
        )

    def start(self) -> None:
        """Begin."""
        self._client.startService()
        settings = ConsumerSettings(
            GROUP,
            stop_timeout_s=3,
            commit=CommitSettings(period_s=0.5),
            delivery=DeliverySettings(backoff=Backoff(0.05, 1), listener_timeout_s=1),
        )
        listener = Listener(self._journal)
        consumer = self._client.consumer(settings)
        consumer.subscribe(self._options.topic, listener.take)
        consumer.start().addCallbacks(self._started, self._not_started)
        reactor.addSystemEventTrigger("before", "shutdown", self._stop)
        reactor.addSystemEventTrigger("after", "shutdown", self._stopped)

    def _started(self, _: None) -> None:
        self._journal.write("started")
        if self._options.rate:
            self._sending.start(SECONDS_BETWEEN_SENDS)

    def _not_started(self, failure: Failure) -> None:
        self._journal.write("not started", why=failure.getErrorMessage())
        if reactor.running:
            reactor.stop()

    def end_sending(self) -> None:
        """Send no more."""
        if self._sending.running:
            self._sending.stop()

    def _send(self) -> None:
        if self._producer.buffered_bytes > MOST_UNANSWERED_BYTES / 2:
            return
        options = self._options
        for _ in range(max(1, int(options.rate * SECONDS_BETWEEN_SENDS))):
            self._count += 1
            body = f"{options.name}-{self._count}"
            padded = f"{body} ".ljust(options.size, "x").encode()
            sent = self._producer.send(Message(options.topic, padded))
            sent.addCallbacks(partial(self._acked, body), partial(self._failed, body))

    def _acked(self, body: str, _: object) -> None:
        self._journal.write("acked", body=body)

    def _failed(self, body: str, failure: Failure) -> None:
        error = failure.trap(ClientError) and failure.value
        unknown = getattr(error, "outcome_unknown", True)
        self._journal.write("failed", body=body, unknown=unknown, why=str(error))

    def _stop(self) -> Deferred[None]:
        self.end_sending()
        return self._client.stop(5)

    def _stopped(self) -> None:
        timers = [str(call) for call in reactor.getDelayedCalls()]
        self._journal.write("stopped", timers=timers)


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--topic", default="test")
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--session-s", type=float, default=4)
    parser.add_argument("--via", type=int, default=0)
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)])
    program = Program(parser.parse_args())

    def end_sending(*_: Any) -> None:
        reactor.callFromThread(program.end_sending)

    signal.signal(signal.SIGUSR1, end_sending)
    reactor.callWhenRunning(program.start)
    reactor.run()


if __name__ == "__main__":
    main()
