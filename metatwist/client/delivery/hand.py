"""Messages on their way to a listener."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from metatwist.client.message import ReceivedMessage

Call = Callable[[ReceivedMessage], object]


@define(eq=False)
class Hand:
    """Messages being delivered with `call`: those before `index` are done, the one
    there has failed `failures` times."""

    messages: list[ReceivedMessage]
    call: Call
    index: int = 0
    failures: int = 0

    @property
    def message(self) -> ReceivedMessage:
        """The first that is not done."""
        return self.messages[self.index]

    @property
    def is_done(self) -> bool:
        """Whether all are."""
        return self.index >= len(self.messages)

    def advance(self, end: int) -> list[ReceivedMessage]:
        """Those before index `end` are done; which ones more."""
        first = self.index
        if end == first:
            return []
        self.index, self.failures = end, 0
        return self.messages[first:end]
