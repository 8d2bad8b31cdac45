"""Consumers of one group without processes: sessions of one tree in memory, holders
that a test can make slow, peers that do as Java does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from metatwist.client.group.membership import GroupMembership
from metatwist.client.group.shares import default_share
from metatwist.client.interfaces import IPartitionHolder
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import Claim
from metatwist.client.settings import ConsumerSettings, Strategy
from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.embedded.realm import NoJournal, Realm
from metatwist.coordination.errors import ConnectionLost
from metatwist.coordination.formats import TopicRegistration, encode_topics
from metatwist.coordination.interface import SessionState
from metatwist.coordination.layout import Layout, TopicTree
from metatwist.coordination.names import NodeName, PartitionName

GROUP = "g"
SESSION_TIMEOUT_S = 30.0
LAYOUT = Layout()
TREE = TopicTree.SUBSCRIBE


def tp(text: str) -> TopicPartition:
    """`t:0-1` as a partition."""
    topic, _, name = text.partition(":")
    partition = PartitionName.parse(name)
    assert partition is not None
    return TopicPartition(topic, partition)


class Connection(LocalCoordinator):
    """A session that can lose its connection and its life, answer late, and fail."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.latency_s = 0.0
        self.faults: random.Random | None = None
        self.fault_rate = 0.0
        self.requests = 0
        self._late: list[Deferred[Any]] = []

    def resume(self) -> None:
        """The connection is there again, with the same session."""
        self._change_state(SessionState.CONNECTED)

    def suspend(self) -> None:
        """Lose the connection; what is under way fails."""
        late, self._late = self._late, []
        super().suspend()
        for one in late:
            if not one.called:
                one.errback(ConnectionLost())

    def expire_unnoticed(self) -> None:
        """The server ends the session; nobody is told."""
        assert self.realm is not None and self._session is not None
        self.realm.sessions.end(self._session)

    def renew(self) -> None:
        """Another session instead."""
        assert self.realm is not None
        self.open(self.realm)

    def _answer(self, call: Any) -> Deferred[Any]:
        return self._through(call, super()._answer)

    def _write(self, call: Any) -> Deferred[Any]:
        return self._through(call, super()._write)

    def _through(self, call: Any, ask: Callable[[Any], Deferred[Any]]) -> Deferred[Any]:
        self.requests += 1
        fails = self.faults is not None and self.faults.random() < self.fault_rate
        if fails and self.faults is not None and self.faults.random() < 0.5:
            return fail(ConnectionLost("never sent"))
        asked = ask(call)
        if fails:
            asked.addBoth(_unheard)
            return fail(ConnectionLost("answer lost"))
        if not self.latency_s:
            return asked
        late: Deferred[Any] = Deferred()
        self._late.append(late)
        self.clock.callLater(self.latency_s, self._arrive, late, asked)
        return late

    def _arrive(self, late: Deferred[Any], asked: Deferred[Any]) -> None:
        if late in self._late:
            self._late.remove(late)
            asked.chainDeferred(late)
        else:
            asked.addBoth(_unheard)


def _unheard(answer: Any) -> None:
    """Nobody gets this answer, nor the watch in it."""
    if isinstance(answer, tuple) and isinstance(answer[-1], Deferred):
        answer[-1].addErrback(lambda _: None)
        answer[-1].cancel()


@implementer(IPartitionHolder)
class Holder:
    """Reads nothing, and remembers all it is told. `slow_takes` and `slow_stops` make
    partitions wait for `begin` and `finish`."""

    def __init__(self) -> None:
        self.reading: dict[TopicPartition, Claim] = {}
        self.claims: dict[TopicPartition, Claim] = {}
        self.log: list[tuple[str, tuple[str, ...]]] = []
        self.doubts: list[bool] = []
        self.troubles: list[str] = []
        self.slow_takes: set[TopicPartition] = set()
        self.slow_stops: set[TopicPartition] = set()
        self.taking: list[Deferred[None]] = []
        self.stopping: dict[TopicPartition, Deferred[None]] = {}
        self.on_give_up: Callable[[TopicPartition], object] = id

    def _note(self, what: str, partitions: Iterable[TopicPartition]) -> None:
        self.log.append((what, tuple(sorted(map(str, partitions)))))

    def take(self, claims: Mapping[TopicPartition, Claim]) -> Deferred[None]:
        self._note("take", claims)
        overlap = self.reading.keys() & claims.keys()
        assert not overlap, f"taken twice: {overlap}"
        assert not self.stopping.keys() & claims.keys(), "taken while stopping"
        self.reading.update(claims)
        self.claims.update(claims)
        if self.slow_takes & claims.keys():
            self.taking.append(Deferred())
            return self.taking[-1]
        return succeed(None)

    def begin(self) -> None:
        """The slow takes are done."""
        taking, self.taking = self.taking, []
        for one in taking:
            one.callback(None)

    def give_up(self, partitions: Sequence[TopicPartition]) -> Deferred[None]:
        self._note("give_up", partitions)
        (partition,) = partitions
        self.reading.pop(partition, None)
        self.on_give_up(partition)
        if partition not in self.slow_stops:
            return succeed(None)
        self.stopping[partition] = Deferred()
        return self.stopping[partition]

    def finish(self, partition: TopicPartition) -> None:
        """A slow stop is done."""
        self.stopping.pop(partition).callback(None)

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("lose", partitions)
        for partition in partitions:
            self.reading.pop(partition, None)

    def doubt(self, doubted: bool) -> None:
        self.doubts.append(doubted)

    def trouble(self, text: str) -> None:
        self.troubles.append(text)


class Member:
    """One consumer with its session."""

    def __init__(
        self,
        world: World,
        unique: str,
        topics: str = "t",
        connection: Connection | None = None,
        strategy: Strategy = Strategy.DEFAULT,
    ) -> None:
        self.connection = connection or world.connect()
        self.holder = Holder()
        settings = ConsumerSettings(GROUP, unique, strategy, stop_timeout_s=10)
        self.membership = GroupMembership(
            world.clock, self.connection, LAYOUT, settings, SESSION_TIMEOUT_S
        )
        self.topics = frozenset(topics.split())
        self.outcomes: list[Any] = []
        self.started: Deferred[None] | None = None

    @property
    def consumer(self) -> str:
        return self.membership.consumer

    def start(self) -> Deferred[None]:
        started = self.membership.start(self.holder, self.topics)
        self.started = started
        started.addBoth(self.outcomes.append)
        return started

    def reads(self) -> list[str]:
        """What it reads and may prove, sorted."""
        return sorted(
            str(one) for one, claim in self.holder.reading.items() if claim.holds()
        )


class JavaPeer:
    """Shares as the original does: on each look gives back, then claims; drops all when
    a claim fails (spec client 10.2, 10.3)."""

    def __init__(self, world: World, unique: str, topics: str = "t") -> None:
        self.consumer = f"{GROUP}_{unique}"
        self.connection = world.connect()
        self.topics = frozenset(topics.split())
        self.held: set[TopicPartition] = set()
        self._world = world

    def _do(self, verb: str, *arguments: Any, **options: Any) -> Any:
        found: list[Any] = []
        getattr(self.connection, verb)(*arguments, **options).addBoth(found.append)
        return found[0]

    def join(self) -> None:
        path = LAYOUT.member(GROUP, self.consumer)
        data = encode_topics(self.topics)
        self._do("create", path, data, ephemeral=True, make_parents=True)

    def leave(self) -> None:
        for one in sorted(self.held):
            self._do("delete", LAYOUT.owner(GROUP, one.topic, one.partition))
        self.held.clear()
        self._do("delete", LAYOUT.member(GROUP, self.consumer))
        self.connection.close()

    def balance(self) -> bool:
        """One pass; whether it succeeded."""
        wanted = self._world.shares(self.topics, self.consumer)
        for one in sorted(self.held - wanted):
            self._do("delete", LAYOUT.owner(GROUP, one.topic, one.partition))
            self.held.discard(one)
        for one in sorted(wanted - self.held):
            path = LAYOUT.owner(GROUP, one.topic, one.partition)
            data = self.consumer.encode()
            made = self._do("create", path, data, ephemeral=True, make_parents=True)
            if made != path:
                for mine in sorted(self.held):
                    owner = LAYOUT.owner(GROUP, mine.topic, mine.partition)
                    self._do("delete", owner)
                self.held.clear()
                return False
            self.held.add(one)
        return True


class World:
    """A tree, brokers that register in it, and a clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.realm = Realm.over(
            NoJournal(),
            self.clock.seconds,
            lambda: int(self.clock.seconds() * 1000),
        )
        self.admin = self.connect()
        self.brokers: dict[tuple[str, str], int] = {}

    def connect(self) -> Connection:
        connection = Connection(self.clock)
        connection.open(self.realm)
        return connection

    def advance(self, duration_s: float, step_s: float = 0.05) -> None:
        """Let time go by in small steps."""
        for _ in range(max(round(duration_s / step_s), 1)):
            self.clock.advance(step_s)

    def do(self, waiting: Deferred[Any]) -> Any:
        """What a request of the admin's came to."""
        found: list[Any] = []
        waiting.addBoth(found.append)
        return found[0]

    def broker(self, topic: str, count: int, node: str = "0-m") -> None:
        """A broker offers so many partitions of a topic, or none any more for 0."""
        path = LAYOUT.topic_node(TREE, topic, node)
        self.do(self.admin.delete(path))
        self.brokers.pop((topic, node), None)
        if count:
            self.brokers[topic, node] = count
            name = NodeName.parse(node)
            assert name is not None
            data = TopicRegistration(count, name).encode(TREE)
            self.do(self.admin.create(path, data, ephemeral=True, make_parents=True))

    def partitions(self, topic: str) -> set[PartitionName]:
        """What all brokers offer of a topic."""
        return {
            PartitionName(int(node.partition("-")[0]), number)
            for (name, node), count in self.brokers.items()
            for number in range(count)
            if name == topic
        }

    def members(self) -> dict[str, frozenset[str]]:
        """Who is registered, with topics."""
        found = {}
        names = self.do(self.admin.get_children(LAYOUT.members(GROUP)))
        for name in names if isinstance(names, list) else ():
            data = self.do(self.admin.get(LAYOUT.member(GROUP, name)))[0]
            found[name] = frozenset(filter(None, data.decode().split(",")))
        return found

    def shares(self, topics: frozenset[str], me: str) -> set[TopicPartition]:
        """What a member should hold."""
        members = self.members()
        return {
            TopicPartition(topic, one)
            for topic in topics
            for one in default_share(
                me,
                [name for name, its in members.items() if topic in its],
                self.partitions(topic),
            )
        }

    def owner(self, partition: TopicPartition) -> tuple[str, int] | None:
        """Consumer id and session of a partition's owner node."""
        path = LAYOUT.owner(GROUP, partition.topic, partition.partition)
        found = self.do(self.admin.get(path))
        if not isinstance(found, tuple):
            return None
        return found[0].decode(), found[1].ephemeral_owner


class GroupCase(SynchronousTestCase):
    """A world with the topic `t` of 4 partitions on broker 0."""

    def setUp(self) -> None:
        self.world = World()
        self.clock = self.world.clock
        self.world.broker("t", 4)

    def member(self, unique: str, topics: str = "t", **options: Any) -> Member:
        """One that has begun to join."""
        found = Member(self.world, unique, topics, **options)
        found.start()
        return found

    def joined(self, unique: str, topics: str = "t", **options: Any) -> Member:
        """One that has joined and settled."""
        found = self.member(unique, topics, **options)
        self.world.advance(1)
        self.assertEqual(found.outcomes, [None])
        return found
