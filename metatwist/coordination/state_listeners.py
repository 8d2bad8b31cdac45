"""Who is told of a session's states."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import define, field

from metatwist.coordination.interface import StateListener


@define
class StateListeners:
    """In the order of asking; iterating is over those who listen now."""

    _calls: dict[object, StateListener] = field(factory=dict)

    def add(self, call: StateListener) -> Callable[[], None]:
        """One more; returns how to take it away. Idempotent."""
        key = object()
        self._calls[key] = call

        def remove() -> None:
            self._calls.pop(key, None)

        return remove

    def __iter__(self) -> Iterator[StateListener]:
        for key, call in tuple(self._calls.items()):
            if key in self._calls:
                yield call
