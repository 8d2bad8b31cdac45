"""Messages that a producer sends while other things happen, and their fate."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType

from attrs import frozen
from typing_extensions import Self

from .java_driver import Body, DriverSession, Received, Sent

RECORD_HEADER_BYTES = 20
_BATCH = 5
_PAUSE_S = 0.02


@frozen
class Acknowledged:
    """A message, and where the broker says that it lies."""

    message: Body
    sent: Sent

    @property
    def next_offset(self) -> int:
        """Where the message behind it lies (spec storage 2)."""
        attribute = self.message.attribute
        extra = 0 if attribute is None else 4 + len(attribute.encode())
        size = RECORD_HEADER_BYTES + extra + len(self.message.body)
        return self.sent.offset + size

    def as_received(self, topic: str) -> Received:
        """As a consumer is given it."""
        sent, message = self.sent, self.message
        return Received(
            topic, sent.id, message.body, message.attribute, sent.partition,
            self.next_offset,
        )  # fmt: skip


class Traffic:
    """Sends numbered messages to a topic in the background, within a `with` block;
    their bodies begin with `prefix`.

    Attributes:
        acknowledged: those that the broker took, in order.
        failed: those whose sending failed; the broker may have them all the same.
    """

    def __init__(
        self, session: DriverSession, topic: str, prefix: bytes = b"message"
    ) -> None:
        self._session = session
        self._prefix = prefix
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: Exception | None = None
        self.acknowledged: list[Acknowledged] = []
        self.failed: list[Sent] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if error is None and self._error is not None:
            raise self._error

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(_PAUSE_S):
            batch = [self._message(number + index) for index in range(_BATCH)]
            number += _BATCH
            try:
                outcomes = self._session.send(self._topic, batch)
            except Exception as error:
                self._error = error
                return
            self._keep(zip(batch, outcomes, strict=True))

    def _keep(self, outcomes: Iterable[tuple[Body, Sent]]) -> None:
        for message, sent in outcomes:
            if sent.success:
                self.acknowledged.append(Acknowledged(message, sent))
            else:
                self.failed.append(sent)

    def _message(self, number: int) -> Body:
        attribute = f"number {number}" if number % 3 == 0 else None
        return Body(b"%s %d" % (self._prefix, number) + bytes(number % 200), attribute)
