"""The broker's own TCP transport: sends at once, and sends ranges of files.

Twisted's transport waits for the reactor to say that it may write, which costs two
system calls and a turn for every reply. This one tries first and buffers the rest.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from functools import partial
from typing import Any

from twisted.internet import main, tcp
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.broker.storage.file_pool import OpenFile

# From 128 KiB on the C library maps new memory for each read, at 20 us a time.
RECEIVE_BYTES = 64 * 1024
# One slow reader's share of a turn, so that a large reply does not delay a put.
TURN_BYTES = 512 * 1024
LEAST_BACKLOG = 1024


_PEER_GONE = (errno.EPIPE, errno.ECONNRESET, errno.ETIMEDOUT, errno.ENOTCONN)


class FileRange:
    """Bytes of an open file on their way out; releases the file when done."""

    __slots__ = ("_left", "_on_done", "_position", "file")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self.file = file
        self._position = position
        self._left = size

    def __len__(self) -> int:
        return self._left

    def send_to(self, fd: int) -> int:
        """Send what fits, at most a turn's share; returns the bytes sent."""
        share = min(self._left, TURN_BYTES)
        sent = os.sendfile(fd, self.file.fd, self._position, share)
        if not sent:
            raise OSError(f"{self.file.path} is shorter than the range to send")
        self._position += sent
        self._left -= sent
        return sent

    def release(self) -> None:
        """Give the file back."""
        self.file.release()


class BrokerTransport(tcp.Server):
    """A server connection with immediate sends; `send_file` is what it adds.

    Buffered output counts against `HIGH_WATER`: past it the registered producer is
    paused until all has gone.
    """

    HIGH_WATER = 64 * 1024
    _broker_log = Logger()

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._queue: deque[bytes | FileRange] = deque()
        self._queued_bytes = 0

    def doRead(self) -> Any:
        """Give what has arrived to the protocol."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return main.CONNECTION_LOST
        if not data:
            return main.CONNECTION_DONE
        self.protocol.dataReceived(data)
        return None

    def write(self, data: bytes) -> None:
        """Send now what the socket takes, and the rest when it may."""
        if not self.connected or self._writeDisconnected or not data:
            return
        sent = 0
        if not self._queue:
            try:
                sent = self.socket.send(data)
            except OSError:
                # Busy, or broken: then the writer finds out and ends the connection.
                sent = 0
            if sent == len(data):
                return
        self._enqueue(data[sent:] if sent else data)

    def writeSequence(self, iovec: Any) -> None:
        """All of it, in one send."""
        self.write(b"".join(iovec))

    def send_file(
        self, header: bytes, file: OpenFile, position: int, size: int
    ) -> None:
        """Send `header` and then a range of `file`, which is released afterwards."""
        if not self.connected or self._writeDisconnected:
            file.release()
            return
        idle = not self._queue
        self._queue.append(header)
        self._queue.append(FileRange(file, position, size))
        self._queued_bytes += len(header) + size
        if idle and self._send_queued():
            return
        self.startWriting()
        self._pause_if_full()

    def _enqueue(self, data: bytes) -> None:
        self._queue.append(data)
        self._queued_bytes += len(data)
        self.startWriting()
        self._pause_if_full()

    def _pause_if_full(self) -> None:
        producer: Any = self.producer
        if producer is None or self.producerPaused:
            return
        if self._queued_bytes > self.HIGH_WATER and self.streamingProducer:
            self.producerPaused = True
            producer.pauseProducing()

    def _send_queued(self) -> bool:
        """Send from the queue until it is empty (True), busy, or a turn's share is out.

        An error is left for `doWrite`, which may end the connection; this may not.
        """
        try:
            return self._drain()
        except OSError:
            return False

    def _drain(self) -> bool:
        queue, fd, share = self._queue, self.socket.fileno(), TURN_BYTES
        while queue and share > 0:
            item = queue[0]
            try:
                if isinstance(item, bytes):
                    more = len(queue) > 1
                    sent = self.socket.send(item, _MSG_MORE if more else 0)
                    left = len(item) - sent
                    if left:
                        queue[0] = item[sent:]
                else:
                    sent = item.send_to(fd)
                    left = len(item)
            except (BlockingIOError, InterruptedError):
                return False
            self._queued_bytes -= sent
            share -= sent
            protocol: Any = self.protocol
            protocol.active = True
            if not left:
                queue.popleft()
                if isinstance(item, FileRange):
                    item.release()
        return not queue

    def doWrite(self) -> Any:
        """Called when the socket has room again."""
        try:
            if not self._drain():
                return None
        except OSError as error:
            item = self._queue[0] if self._queue else None
            if isinstance(item, FileRange):
                self._log_cut_reply(item, error)
            return main.CONNECTION_LOST
        self.stopWriting()
        producer: Any = self.producer
        if producer is not None and (not self.streamingProducer or self.producerPaused):
            self.producerPaused = False
            producer.resumeProducing()
        elif self.disconnecting:
            return self._postLoseConnection()
        elif self._writeDisconnecting:
            self._writeDisconnected = True
            self._closeWriteConnection()
        return None

    def _log_cut_reply(self, item: FileRange, error: OSError) -> None:
        """Sending a range fails for the peer's reasons or for the disk's."""
        if error.errno not in _PEER_GONE:
            path = str(item.file.path)
            self._broker_log.error(
                "a reply was cut, cannot read {path}: {error}", path=path, error=error
            )

    def connectionLost(self, reason: Failure) -> None:
        """Release what was still to be sent."""
        for item in self._queue:
            if isinstance(item, FileRange):
                item.release()
        self._queue.clear()
        super().connectionLost(reason)


_MSG_MORE = 0x8000 if os.name == "posix" else 0


class BrokerPort(tcp.Port):
    """A listening port whose connections are `BrokerTransport`s in a lane."""

    def __init__(self, lane: Any, *args: Any) -> None:
        super().__init__(*args)
        build: Any = partial(_in_lane, lane)
        self.transport = build


def _in_lane(lane: Any, *args: Any) -> BrokerTransport:
    # The last argument is the reactor; the connection lives in the lane instead.
    return BrokerTransport(*args[:-1], lane)


class ListeningReactor:
    """The reactor as endpoints see it: plain TCP is listened to with `BrokerPort`.

    All else (TLS, unix sockets, inherited sockets) is the reactor's own.
    """

    def __init__(self, reactor: Any, lane: Any) -> None:
        self._reactor = reactor
        self._lane = lane

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenTCP(
        self, port: int, factory: Any, backlog: int = 50, interface: str = ""
    ) -> BrokerPort:
        """As `IReactorTCP.listenTCP`, with a backlog that a rush of clients fits."""
        backlog = max(backlog, LEAST_BACKLOG)
        listening = BrokerPort(
            self._lane, port, factory, backlog, interface, self._reactor
        )
        listening.startListening()
        return listening
