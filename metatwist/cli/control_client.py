"""The command line's end of the control socket: blocking, standard library only."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

from attrs import frozen

from metatwist.errors import AdminError, MetatwistError
from metatwist.local_socket import CONTROL_SOCKET_NAME, MAX_LINE_BYTES, ShortAddress

MAX_ANSWER_BYTES = 256 << 20
RETRY_CONNECT_S = 0.05


class BrokerUnreachable(MetatwistError):
    """No broker answers on this data directory; the text says what was found there."""


class BrokerGone(BrokerUnreachable):
    """The broker took the request and left before it answered."""


@frozen
class ControlClient:
    """Asks the broker whose data directory is `directory`, one verb a connection.

    `answer_timeout_s` None waits as long as the verb takes.
    """

    directory: Path
    connect_timeout_s: float = 5.0
    answer_timeout_s: float | None = None

    def call(self, verb: str, **arguments: object) -> object:
        """Run `verb` in the broker and return its result, a JSON value.

        Arguments that are None are left out. Raises `AdminError` when the broker
        refuses, `BrokerUnreachable` or `BrokerGone` when there is no answer.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        request = json.dumps({"verb": verb, "args": given}).encode("ascii")
        if len(request) > MAX_LINE_BYTES:
            raise AdminError(f"{verb}: a request is limited to {MAX_LINE_BYTES} bytes")
        with self._connect() as wire:
            wire.settimeout(self.answer_timeout_s)
            try:
                wire.sendall(request + b"\n")
                line = _read_line(wire)
            except TimeoutError:
                raise BrokerUnreachable(
                    f"no answer to {verb} within {self.answer_timeout_s:g} s; the "
                    "broker hangs, is stopped by a signal or a debugger, or is busy, "
                    f"and may still do {verb}"
                ) from None
            except (ConnectionError, EOFError):
                raise BrokerGone(
                    f"the broker left before it answered; {verb} may or may not have "
                    "been done"
                ) from None
        return _result(line)

    def _connect(self) -> socket.socket:
        directory = Path(os.path.abspath(self.directory))
        path = directory / CONTROL_SOCKET_NAME
        try:
            with ShortAddress(path) as address:
                return _connected(address, self.connect_timeout_s)
        except (FileNotFoundError, NotADirectoryError):
            raise BrokerUnreachable(_nobody_home(directory)) from None
        except PermissionError:
            raise BrokerUnreachable(
                f"permission denied on {path}; only the user that runs the broker "
                "(and root) may administer it"
            ) from None
        except ConnectionRefusedError:
            raise BrokerUnreachable(
                f"nobody listens on {path}; the broker there has crashed or is just "
                "stopping"
            ) from None
        except TimeoutError:
            raise BrokerUnreachable(
                f"the broker on {directory} accepts no connection within "
                f"{self.connect_timeout_s:g} s"
            ) from None
        except OSError as error:
            raise BrokerUnreachable(f"cannot connect to {path}: {error}") from error


def _connected(address: str, timeout_s: float) -> socket.socket:
    deadline = time.monotonic() + timeout_s
    while True:
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            wire.settimeout(timeout_s)
            wire.connect(address)
            return wire
        except BlockingIOError:  # the queue of connections to be accepted is full
            wire.close()
            if time.monotonic() > deadline:
                raise TimeoutError from None
            time.sleep(RETRY_CONNECT_S)
        except BaseException:
            wire.close()
            raise


def _nobody_home(directory: Path) -> str:
    if not directory.is_dir():
        return (
            f"there is no directory {directory}; name the broker's data directory "
            "with --data or METATWIST_DATA"
        )
    return (
        f"no broker runs on {directory} (it has no {CONTROL_SOCKET_NAME}); start it, "
        "or name another data directory with --data or METATWIST_DATA"
    )


def _read_line(wire: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):  # one request was sent, so one line comes
        chunk = wire.recv(1 << 16)
        if not chunk:
            raise EOFError
        received += chunk
        if len(received) > MAX_ANSWER_BYTES:
            raise BrokerUnreachable(f"an answer above {MAX_ANSWER_BYTES} bytes")
    return bytes(received)


def _result(line: bytes) -> object:
    try:
        answer = json.loads(line)
        accepted = answer["ok"]
        outcome: object = answer["result" if accepted else "error"]
    except (ValueError, KeyError, TypeError):
        raise BrokerUnreachable(
            f"what answered is no metatwist broker: {line[:80]!r}"
        ) from None
    if not accepted:
        raise AdminError(str(outcome))
    return outcome
