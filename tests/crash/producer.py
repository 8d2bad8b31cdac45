"""One producer connection: many puts in flight, and a note of every one of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from tests.support.wire_client import (
    HEADER,
    ConnectionEnded,
    WireClient,
    WireError,
    put_request,
)

from .ledger import Sending
from .payloads import Identity, Payloads

Key = tuple[str, int]
MOST_IN_FLIGHT = 64


class Producer(threading.Thread):
    """Puts until the broker goes away or it is told to stop.

    Attributes, to be read after `join`:
        sendings: (partition, what became of the message), in the order sent.
        error: what the broker did that it must not do.
        partial: bytes of half a reply at the end of the connection.
    """

    def __init__(
        self, port: int, name: tuple[int, int], keys: Sequence[Key], payloads: Payloads
    ) -> None:
        super().__init__(daemon=True)
        self._round, self._number = name
        self._random = random.Random(hash(name))
        self._depth = self._random.choice((1, 4, 16, MOST_IN_FLIGHT))
        self._keys = keys
        self._payloads = payloads
        self._client = WireClient(port)
        self._told_to_stop = False
        self._sequence = 0
        self._open: dict[int, int] = {}
        self.sendings: list[tuple[Key, Sending]] = []
        self.error: str | None = None
        self.partial = b""

    def finish(self) -> None:
        """Send no more; take the answers that are due."""
        self._told_to_stop = True

    def run(self) -> None:
        """The thread's work."""
        try:
            with self._client:
                while not self._told_to_stop:
                    self._send_burst()
                    self._take_replies(at_most_open=self._depth // 2)
                self._take_replies(at_most_open=0)
        except ConnectionEnded as ended:
            self.partial = ended.partial
        except OSError:
            pass
        except (WireError, KeyError, ValueError) as error:
            self.error = f"{type(error).__name__}: {error}"

    def _send_burst(self) -> None:
        requests = []
        while len(self._open) < self._depth:
            identity = Identity(self._round, self._number, self._sequence)
            payload = self._payloads.make(identity)
            key = self._random.choice(self._keys)
            requests.append(put_request(*key, payload, opaque=self._sequence))
            sending = Sending(
                identity, HEADER.size + len(payload), not payload, stored=None
            )
            self._open[self._sequence] = len(self.sendings)
            self.sendings.append((key, sending))
            self._sequence += 1
        self._client.send(b"".join(requests))

    def _take_replies(self, at_most_open: int) -> None:
        while len(self._open) > at_most_open:
            reply = self._client.reply()
            at = self._open.pop(reply.opaque)
            key, sending = self.sendings[at]
            stored = reply.stored
            if stored.partition != key[1]:
                raise WireError(f"put to {key} answered {stored}")
            self.sendings[at] = key, sending._replace(stored=stored)
