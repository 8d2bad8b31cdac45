"""A TCP proxy on loopback whose link can be cut, in two ways, and healed."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

from typing_extensions import Self

_CHUNK_BYTES = 65536
_CONNECT_LIMIT_S = 10.0
_JOIN_LIMIT_S = 10.0


class TcpProxy:
    """Forwards connections to `port` to the loopback port `target_port`.

    `cut()` is a server that went away: connections are closed and new ones refused.
    `cut(black_hole=True)` is a network that swallows packets: connections stay open
    and nothing passes, not even their end; new ones are accepted and lead nowhere.
    After `heal()` such connections carry what was held back.

    Attributes:
        port: where it listens, kept over cuts.
        accepted: how many connections came in so far.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.accepted = 0
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._acceptor: threading.Thread | None = None
        self._listener = _listen(0)
        self.port: int = self._listener.getsockname()[1]
        self._accept_in_thread()

    @property
    def address(self) -> str:
        """`host:port` of the proxy."""
        return f"127.0.0.1:{self.port}"

    def cut(self, black_hole: bool = False) -> None:
        """Cut the link; see the class."""
        if black_hole:
            self._flowing.clear()
        else:
            self._stop_listening()
            self._drop_all()

    def heal(self) -> None:
        """Undo every `cut`."""
        if self._acceptor is None:
            self._listener = _listen(self.port)
            self._accept_in_thread()
        self._flowing.set()

    def close(self) -> None:
        """Close everything, for good."""
        self._stop_listening()
        self._drop_all()
        self._flowing.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _accept_in_thread(self) -> None:
        self._acceptor = _thread(self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.accepted += 1
                self._open.add(peer)
            _thread(self._forward, peer)

    def _stop_listening(self) -> None:
        if self._acceptor is None:
            return
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the acceptor
        self._acceptor.join(_JOIN_LIMIT_S)
        self._listener.close()
        self._acceptor = None

    def _drop_all(self) -> None:
        with self._lock:
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it

    def _forward(self, peer: socket.socket) -> None:
        self._flowing.wait()
        try:
            server = socket.create_connection(
                ("127.0.0.1", self.target_port), _CONNECT_LIMIT_S
            )
        except OSError:
            self._close(peer)
            return
        server.settimeout(None)
        with self._lock:
            self._open.add(server)
        back = _thread(self._pump, server, peer)
        self._pump(peer, server)
        back.join()
        self._close(peer)
        self._close(server)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                self._flowing.wait()
                sink.sendall(data)
        self._flowing.wait()
        # Once one end is gone the other learns of it, in both directions.
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _close(self, end: socket.socket) -> None:
        with self._lock:
            self._open.discard(end)
            end.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


def _thread(call: object, *arguments: object) -> threading.Thread:
    assert callable(call)
    thread = threading.Thread(target=call, args=arguments, daemon=True)
    thread.start()
    return thread
