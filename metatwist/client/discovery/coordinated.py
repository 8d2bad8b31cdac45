"""Brokers and topics as a coordinator tells of them (spec layout 5.1, 5.3).

Each followed topic has a loop: look, then sleep until a watch fires or half a minute
has passed. A watch only says that something changed; the look after it finds out what,
so that no number of events makes more than one look per 20 ms. Beside the topic's
own nodes the `master` nodes of its brokers are watched, there or not: a broker that
moves changes nothing else (W9). `brokers/ids` says nothing that these do not.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from attrs import Factory, define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred, fail
from zope.interface import implementer

from metatwist.client.discovery.looking import Looking
from metatwist.client.discovery.tree_reading import TreeReading, Warnings
from metatwist.client.discovery.waiting import (
    Listeners,
    RoutesListener,
    Running,
    together,
)
from metatwist.client.discovery.watched_tree import WatchedTree
from metatwist.client.errors import (
    ClientError,
    ClientStopped,
    InvalidMessage,
    NotConnected,
    Where,
)
from metatwist.client.interfaces import IDiscovery, PublishRoutes
from metatwist.client.znodes import Key
from metatwist.coordination.errors import (
    CoordinationError,
    NodeExists,
    NoNode,
    SessionExpired,
)
from metatwist.coordination.interface import ICoordinator, SessionState
from metatwist.coordination.layout import Layout, TopicTree
from metatwist.coordination.names import PartitionName, path_element_problem

T = TypeVar("T")
REFRESH_S = 0.5
Shuffle = Callable[[list[str]], object]


@define(eq=False)
class _Followed:
    """A topic that is followed; its routes depend on the nodes `used`, and those of a
    look under way on `using`."""

    topic: str
    used: set[Key] = Factory(set)
    using: set[Key] = Factory(set)
    looking: Looking[PublishRoutes] = field(init=False)


@implementer(IDiscovery)
class CoordinatedDiscovery(Service):
    """See IDiscovery; needs to be started, and serves once.

    It writes nothing but the empty directory of a published topic. Without a
    connection to the coordinator the last known routes and readers stay in use. What is
    not known is waited for: a Deferred fails when nothing could be read for 8 s, at
    once when that is hopeless.
    Listeners are told of the first routes as well. What is asked for after the stop, or
    is still open then, fails with ClientStopped.
    """

    def __init__(
        self,
        reactor: Any,
        coordinator: ICoordinator,
        layout: Layout,
        shuffle: Shuffle = random.shuffle,
    ) -> None:
        self._reactor = reactor
        self._coordinator: Any = coordinator
        self._layout = layout
        self._shuffle = shuffle
        self._tree = WatchedTree(reactor, coordinator, self._changed)
        self._warnings = Warnings()
        self._topics: dict[str, _Followed] = {}
        self._asked: set[Looking[Any]] = set()
        self._listeners = Listeners()
        self._work = Running("discovery")
        self._readers: dict[int, tuple[str, ...]] = {}
        self._stop_listening: Callable[[], None] | None = None

    # -- life -----------------------------------------------------------------------

    def startService(self) -> None:
        """Begin to look."""
        super().startService()
        self._stop_listening = self._coordinator.on_state(self._state_changed)
        for followed in self._topics.values():
            followed.looking.start()

    def stopService(self) -> None:
        """End all looks and watches; whoever waits gets ClientStopped."""
        super().stopService()
        if self._stop_listening is not None:
            self._stop_listening()
        self._work.stop()
        for followed in self._topics.values():
            followed.looking.stop()
        topics, self._topics = self._topics, {}
        for followed in topics.values():
            followed.looking.found.give_up(self._work.error())
        self._tree.close()

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and self.running:
            for followed in self._topics.values():
                followed.looking.wake()
            for looking in self._asked:
                looking.wake()

    def _changed(self, key: Key) -> None:
        for followed in self._topics.values():
            if key in followed.used or key in followed.using:
                followed.looking.wake()

    # -- publishing -------------------------------------------------------------------

    def publish(self, topic: str) -> Deferred[PublishRoutes]:
        """See IDiscovery. Cancelling stops the wait, not the following."""
        error = self._work.error() if self._work.stopped else _unfit(topic)
        if error is not None:
            return fail(error)
        followed = self._topics.get(topic)
        if followed is None:
            followed = self._follow(topic)
        return followed.looking.found.wait()

    def routes(self, topic: str) -> PublishRoutes | None:
        """See IDiscovery."""
        followed = self._topics.get(topic)
        return None if followed is None else followed.looking.found.now

    def forget(self, topic: str) -> None:
        """See IDiscovery; whoever still waits for the topic gets ClientStopped."""
        followed = self._topics.pop(topic, None)
        if followed is not None:
            followed.looking.stop()
            error = ClientStopped("forgotten", Where(topic=topic))
            followed.looking.found.give_up(error)

    def on_routes(self, call: RoutesListener) -> Callable[[], None]:
        """See IDiscovery."""
        return self._listeners.add(call)

    def refresh(self, topic: str) -> None:
        """See IDiscovery; not more often than every 0.5 s."""
        followed = self._topics.get(topic)
        if followed is not None:
            self._tree.distrust(followed.used)
            followed.looking.wake(REFRESH_S)

    def _follow(self, topic: str) -> _Followed:
        followed = self._topics[topic] = _Followed(topic)

        def changed(routes: PublishRoutes) -> None:
            # Whoever waited for them may have had enough.
            if self._topics.get(topic) is followed:
                self._listeners.tell(routes)

        followed.looking = Looking(
            self._reactor,
            Where(topic=topic),
            lambda: self._read_routes(followed),
            changed,
        )
        if self.running:
            followed.looking.start()
        return followed

    async def _read_routes(self, followed: _Followed) -> PublishRoutes:
        topic = followed.topic
        followed.using = set()
        reading = self._reading(followed.using)
        with self._explained(topic):
            routes = await reading.routes(topic)
            if routes is None:
                await self._make_directory(topic)
                routes = await reading.routes(topic) or PublishRoutes(topic)
        followed.used = reading.used
        return routes

    async def _make_directory(self, topic: str) -> None:
        path = self._layout.topic_dir(TopicTree.PUBLISH, topic)
        with contextlib.suppress(NodeExists):  # somebody was faster
            await self._coordinator.create(path, make_parents=True)
        self._tree.distrust([(path, True)])

    # -- reading ----------------------------------------------------------------------

    def readers(self, broker_id: int) -> Deferred[tuple[str, ...]]:
        """See IDiscovery; slaves in random order. While the coordinator cannot be
        asked, what was known last; if that is nothing, as `partitions`."""
        return self._ask(lambda: self._find_readers(broker_id))

    async def _find_readers(self, broker_id: int) -> tuple[str, ...]:
        try:
            with self._explained():
                found = list(await self._reading(set()).readers(broker_id))
        except ClientError:
            if broker_id in self._readers:
                return self._readers[broker_id]
            raise
        self._shuffle(found)
        self._readers[broker_id] = tuple(found)
        return tuple(found)

    def partitions(self, topic: str) -> Deferred[tuple[PartitionName, ...]]:
        """See IDiscovery; no directory is made. Fails with NotConnected when nothing
        could be read for 8 s. Cancelling ends the wait."""
        return self._ask(lambda: self._find_partitions(topic), topic)

    async def _find_partitions(self, topic: str) -> tuple[PartitionName, ...]:
        unfit = _unfit(topic)
        if unfit is not None:
            raise unfit
        with self._explained(topic):
            return await self._reading(set()).partitions(topic)

    def topics(self) -> Deferred[list[str]]:
        """All topics that were ever offered or asked for, sorted. Fails as
        `partitions`."""
        return self._ask(self._find_topics)

    async def _find_topics(self) -> list[str]:
        trees = (TopicTree.PUBLISH, TopicTree.SUBSCRIBE)
        with self._explained():
            names = await together(map(self._names_in, trees))
        return sorted(set().union(*names))

    async def _names_in(self, tree: TopicTree) -> list[str]:
        try:
            names: list[str] = await self._coordinator.get_children(
                self._layout.topics(tree)
            )
        except NoNode:
            return []
        return names

    def _ask(
        self, read: Callable[[], Coroutine[Any, Any, T]], topic: str | None = None
    ) -> Deferred[T]:
        """Look until it could be read once."""
        return self._work.start(self._look_once(read, Where(topic=topic)))

    async def _look_once(
        self, read: Callable[[], Coroutine[Any, Any, T]], where: Where
    ) -> T:
        looking = Looking(self._reactor, where, read, lambda _: None)
        self._asked.add(looking)
        looking.start()
        try:
            return await looking.found.wait()
        finally:
            self._asked.discard(looking)
            looking.stop()

    def _reading(self, used: set[Key]) -> TreeReading:
        return TreeReading(self._tree, self._layout, self._warnings, used)

    @contextlib.contextmanager
    def _explained(self, topic: str | None = None) -> Iterator[None]:
        """CoordinationErrors become ClientErrors."""
        try:
            yield
        except CoordinationError as error:
            of_whom = self._coordinator.description
            # Which may say itself what is wrong.
            reason = error.says if error.subject in of_whom else str(error)
            text = f"the coordinator ({of_whom}): {reason}"
            passes = error.retriable or isinstance(error, SessionExpired)
            where = Where(topic=topic)
            failure = NotConnected(text, (), where)
            raise (failure if passes else ClientError(text, where)) from error


def _unfit(topic: str) -> ClientError | None:
    problem = path_element_problem(topic)
    if problem is None:
        return None
    return InvalidMessage(f"the topic {topic!r} {problem}", Where(topic=topic))
