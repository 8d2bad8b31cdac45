"""kazoo's threads, cut down to the one that holds the connection.

kazoo asks its handler for threads, sockets and the delivery of results. This one
delivers results and watch events straight to the reactor's thread, in the order in
which the connection's thread saw them.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from metatwist.coordination.ensemble_settings import server_name
from metatwist.coordination.kazoo_troubles import SESSION_CREATED

HandOver = Callable[..., None]
"""Called with a function and its arguments on any thread: makes the reactor call it."""


class ReactorResult:
    """What kazoo calls an asynchronous result, ended and read on the reactor's thread.

    kazoo's own would lose the order: one that ends between the call that made it and
    the `rawlink` after would be delivered behind a watch event that came later.

    Attributes:
        value, exception: what it ended with, one of them None.
    """

    def __init__(self, on_reactor: HandOver) -> None:
        self.value: Any = None
        self.exception: BaseException | None = None
        self._on_reactor = on_reactor
        self._is_ready = False
        self._callbacks: list[Callable[[ReactorResult], object]] = []

    def ready(self) -> bool:
        """Whether it has ended."""
        return self._is_ready

    def set(self, value: Any = None) -> None:
        """End it, on any thread; only the first end counts."""
        self._on_reactor(self._end, value, None)

    def set_exception(self, exception: BaseException) -> None:
        """End it with an error, on any thread."""
        self._on_reactor(self._end, None, exception)

    def get(self) -> Any:
        """The value, or raises the error; it must have ended."""
        if self.exception is not None:
            raise self.exception
        return self.value

    def rawlink(self, callback: Callable[[ReactorResult], object]) -> None:
        """Call with this result once it has ended, now if it has."""
        if self._is_ready:
            callback(self)
        else:
            self._callbacks.append(callback)

    def _end(self, value: Any, exception: BaseException | None) -> None:
        if self._is_ready:
            return
        self._is_ready = True
        self.value = value
        self.exception = exception
        for callback in self._callbacks:
            callback(self)


class ReactorHandler(SequentialThreadingHandler):
    """A kazoo handler without worker threads; made on the reactor's thread.

    Attributes:
        peer: the server that was last tried, as `host:port`.
        is_accepted: whether that has accepted the connection.
    """

    name = "reactor_handler"

    def __init__(
        self,
        hand_over: HandOver,
        ended: Callable[[Exception | None], None],
        connect_limit_s: float,
    ) -> None:
        super().__init__()
        self.peer = ""
        self.is_accepted = False
        self._hand_over = hand_over
        self._reactor_thread = threading.get_ident()
        self._ended = ended
        self._connect_limit_s = connect_limit_s

    def start(self) -> None:
        """There are no workers to start."""

    def stop(self) -> None:
        """There are no workers to stop."""

    def async_result(self) -> ReactorResult:
        """See ReactorResult."""
        return ReactorResult(self._on_reactor)

    def dispatch_callback(self, callback: Any) -> None:
        """Deliver one watch event."""
        self._hand_over(callback.func, *callback.args)

    def spawn(
        self, func: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> threading.Thread:
        """Run the connection's loop; its end, for whatever reason, is told."""

        def loop() -> None:
            error = None
            try:
                func(*args, **kwargs)
            except Exception as caught:
                error = caught
            self._hand_over(self._ended, error)

        thread = threading.Thread(target=loop, name="zookeeper", daemon=True)
        thread.start()
        return thread

    def _on_reactor(self, call: Callable[..., object], *args: Any) -> None:
        """kazoo goes on by itself from one result to the next; that happens on the
        reactor's thread already, and another turn would reorder it."""
        if threading.get_ident() == self._reactor_thread:
            call(*args)
        else:
            self._hand_over(call, *args)

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """Connect within the limit of one server, so that one that swallows packets
        does not cost the session. Connections without `hostname` are kazoo's questions
        whether a server can write, for which it sets no limit at all."""
        limit_s = min(timeout or self._connect_limit_s, self._connect_limit_s)
        if hostname is not None:
            self.is_accepted = False
            self.peer = server_name(hostname, address[1])
            address = _own_address(hostname, address)
        connection = super().create_connection(
            address, hostname=hostname, timeout=limit_s, **options
        )
        self.is_accepted = self.is_accepted or hostname is not None
        return connection


def _own_address(hostname: str, address: tuple[str, int]) -> tuple[str, int]:
    """`address` if it is one of the host's, else one that is: going over to a server
    that can write, kazoo passes the address of another."""
    found = socket.getaddrinfo(hostname, address[1], type=socket.SOCK_STREAM)
    own = [(str(one[4][0]), int(one[4][1])) for one in found]
    return address if address in own else own[0]


class ShuffledServers(list[tuple[str, int]]):
    """Servers that come in another order each time they are gone through.

    Looking for a server that can write, kazoo never gets past the first.
    """

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(random.sample([*super().__iter__()], len(self)))


class _Forwarding(logging.Handler):
    def __init__(self, tell: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(record)


class _KazooLog(logging.Logger):
    """Cheap for what kazoo tells of each request, which is most of it."""

    def log(self, level: int, msg: object, *args: object, **_: Any) -> None:
        """Pass on what tells of a new session, at whatever level."""
        if str(msg).startswith(SESSION_CREATED):
            record = self.makeRecord(self.name, level, "", 0, msg, args, None)
            self.handle(record)


def forwarding_log(tell: Callable[[logging.LogRecord], None]) -> logging.Logger:
    """A logger outside of the process's tree of them; passes on what is not debug, and
    new sessions, and nothing to any log."""
    log = _KazooLog("kazoo", logging.INFO)
    log.addHandler(_Forwarding(tell))
    return log
