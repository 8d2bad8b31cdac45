"""Consumer groups as this broker sees them: the tree's word and its own logs' ends."""

from __future__ import annotations

from typing import Any

from attrs import asdict
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import deferLater

from metatwist.broker.settings.coordination import tree_settings
from metatwist.broker.topics import Topics
from metatwist.coordination.errors import CoordinationError
from metatwist.coordination.groups import Groups
from metatwist.coordination.interface import ICoordinator
from metatwist.coordination.layout import Layout
from metatwist.errors import AdminError

_MOST_NAMES = 20
_MOST_OF_A_NAME = 100


class OwnBounds:
    """LogBounds of this broker's partitions; those of others are not known."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def bounds(
        self, broker_id: int, topic: str, partition: int
    ) -> tuple[int, int] | None:
        """See LogBounds; a log that could not be loaded is not known either, nor one
        that is being moved."""
        topics = self._topics
        if broker_id != topics.settings.broker_id:
            return None
        key = topic, partition
        log = topics.catalog.logs.get(key)
        if log is not None:
            return log.start, log.readable_end
        unknown = key in topics.catalog.failed or key in topics.busy
        return None if unknown else (0, 0)


def groups_over(reactor: Any, coordinator: ICoordinator, topics: Topics) -> Groups:
    """The query interface; it gives the reactor a turn between pieces of work."""
    layout = Layout(tree_settings(topics.settings).root)
    return Groups(
        coordinator,
        layout,
        OwnBounds(topics),
        lambda: deferLater(reactor, 0, lambda: None),
    )


class GroupQueries:
    """The verb `groups` over a coordinator; None where there is none."""

    def __init__(self, groups: Groups | None) -> None:
        self._groups = groups

    def groups(self, group: str | None) -> Deferred[Any]:
        """One group in full, or a line on each; JSON values.

        Fails with AdminError for an unknown group and without a coordinator.
        """
        return self._answer(group)

    @inlineCallbacks
    def _answer(self, group: str | None) -> Any:
        if self._groups is None:
            raise AdminError("this broker runs with [metatwist] coordinator=none")
        try:
            if group is None:
                views = yield self._groups.all()
                return [asdict(view.summary()) for view in views]
            view = yield self._groups.group(group)
            names = [] if view is not None else (yield self._groups.names())
        except CoordinationError as error:
            raise AdminError(f"groups cannot be read now: {error}") from None
        if view is None:
            raise AdminError(f"no group {group!r}; there are: {_listed(names)}")
        return asdict(view)


def _listed(names: list[str]) -> str:
    listed = [name[:_MOST_OF_A_NAME] for name in names[:_MOST_NAMES]]
    more = len(names) - len(listed)
    return ", ".join(listed + [f"and {more} more"] * (more > 0)) or "none"
