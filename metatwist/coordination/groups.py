"""Consumer groups, read from the tree: members, owners, offsets and lag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twisted.internet.defer import Deferred

from metatwist.coordination.errors import NoNode
from metatwist.coordination.group_assembly import Assembly
from metatwist.coordination.group_view import GroupView
from metatwist.coordination.interface import ICoordinator
from metatwist.coordination.layout import Layout, TopicTree
from metatwist.coordination.names import NodeName, is_path_element
from metatwist.coordination.positions import LogBounds
from metatwist.coordination.tree_copy import Pacing, Pause, TreeCopy, no_pause


class Groups:
    """Answers what the tree says about consumer groups.

    The tree is not read in one moment: during a rebalance a view can hold an owner that
    has just left. Nodes that vanish meanwhile are absent. A failed connection fails the
    Deferred with the CoordinationError. Each time some 10 ms of work are done, `pause`
    is awaited: in a broker it takes a turn of the reactor.
    """

    def __init__(
        self,
        coordinator: ICoordinator,
        layout: Layout,
        bounds: LogBounds,
        pause: Pause = no_pause,
    ) -> None:
        self._coordinator = coordinator
        self._layout = layout
        self._bounds = bounds
        self._pause = pause

    def names(self) -> Deferred[list[str]]:
        """The names of all groups that ever were, sorted."""
        return Deferred.fromCoroutine(self._names())

    def group(self, name: str) -> Deferred[GroupView | None]:
        """The view of a group, None if there never was one of that name."""
        return Deferred.fromCoroutine(self._group(name))

    def all(self) -> Deferred[list[GroupView]]:
        """The views of all groups, by name."""
        return Deferred.fromCoroutine(self._all())

    async def _names(self) -> list[str]:
        try:
            names = await self._coordinator.get_children(self._layout.groups())
        except NoNode:
            return []
        return sorted(filter(is_path_element, names))

    async def _group(self, name: str) -> GroupView | None:
        if not is_path_element(name):
            return None
        if await self._coordinator.exists(self._layout.group(name)) is None:
            return None
        (view,) = await self._views([name])
        return view

    async def _all(self) -> list[GroupView]:
        return await self._views(await self._names())

    async def _views(self, groups: Sequence[str]) -> list[GroupView]:
        """Four rounds, each of independent requests, over all groups at once.

        Offsets come before the ends of logs, so that a busy partition never seems to
        have an offset above its end.
        """
        copy = TreeCopy(self._coordinator, Pacing(self._pause))
        assembly = Assembly(self._layout, copy, self._bounds)
        await copy.read_children(_directories(self._layout, groups))
        await copy.read_data(_members(self._layout, copy, groups))
        await copy.read_children(_topics(self._layout, assembly, groups))
        await copy.read_data(_leaves(self._layout, assembly, groups))
        return [await assembly.view(group) for group in groups]


def _directories(layout: Layout, groups: Sequence[str]) -> Iterator[str]:
    for group in groups:
        yield layout.members(group)
        yield layout.owners(group)
        yield layout.offsets(group)


def _members(layout: Layout, copy: TreeCopy, groups: Sequence[str]) -> Iterator[str]:
    for group in groups:
        names = copy.children.get(layout.members(group), [])
        for name in filter(is_path_element, names):
            yield layout.member(group, name)


def _topics(layout: Layout, assembly: Assembly, groups: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for group in groups:
        for topic in filter(is_path_element, assembly.topics_of(group)):
            yield layout.owners_of(group, topic)
            yield layout.offsets_of(group, topic)
            if topic not in seen:
                seen.add(topic)
                yield layout.topic_dir(TopicTree.SUBSCRIBE, topic)


def _leaves(layout: Layout, assembly: Assembly, groups: Sequence[str]) -> Iterator[str]:
    tree = TopicTree.SUBSCRIBE
    seen: set[str] = set()
    for group in groups:
        for topic in filter(is_path_element, assembly.topics_of(group)):
            for partition in assembly.partitions_of(group, topic):
                yield layout.owner(group, topic, partition)
                yield layout.offset(group, topic, partition)
            if topic in seen:
                continue
            seen.add(topic)
            names = assembly.copy.children.get(layout.topic_dir(tree, topic), [])
            for name in filter(NodeName.parse, names):
                yield layout.topic_node(tree, topic, name)
