"""A group under random joins, leaves, expiries, outages, faults and brokers.

At every step no partition is read by two, and nobody reads without owning the node and
a lease. When quiet, all is shared as it should be.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from metatwist.client.group.membership import MembershipState
from metatwist.client.message import TopicPartition
from metatwist.coordination.interface import SessionState
from tests.client.group.group_case import (
    GROUP,
    LAYOUT,
    SESSION_TIMEOUT_S,
    JavaPeer,
    Member,
    World,
)

SUBSCRIPTIONS = ("t", "u", "t u")
NODES = ("0-m", "0-s1", "1-m")
LIVING = (MembershipState.JOINING, MembershipState.MEMBER)
MOST_MEMBERS = 5

members = st.integers(0, MOST_MEMBERS - 1)


class GroupMachine(RuleBasedStateMachine):
    """The group `g`, its members and Java peers."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.broker("t", 4)
        self.world.broker("u", 3, "1-m")
        self.members: list[Member] = []
        self.java: list[JavaPeer] = []
        self.suspended_s: dict[Member, float] = {}
        self.count = 0

    def living(self) -> list[Member]:
        return [one for one in self.members if one.membership.state in LIVING]

    def pick(self, number: int) -> Member | None:
        living = self.living()
        return living[number % len(living)] if living else None

    # -- what happens ----------------------------------------------------------------

    @precondition(lambda self: len(self.living()) < MOST_MEMBERS)
    @rule(
        topics=st.sampled_from(SUBSCRIPTIONS),
        latency_s=st.sampled_from([0, 0, 0.1, 0.4]),
    )
    def join(self, topics: str, latency_s: float) -> None:
        self.count += 1
        member = Member(self.world, f"m{self.count * 7 % 10}-{self.count}", topics)
        member.connection.latency_s = latency_s
        self.members.append(member)
        member.start()

    @rule(number=members)
    def leave(self, number: int) -> None:
        member = self.pick(number)
        if member is not None:
            member.membership.stop()

    @rule(number=members)
    def suspend(self, number: int) -> None:
        member = self.pick(number)
        if member is not None and member not in self.suspended_s:
            self.suspended_s[member] = self.world.clock.seconds()
            member.connection.suspend()

    @precondition(lambda self: self.suspended_s)
    @rule()
    def resume(self) -> None:
        member = next(iter(self.suspended_s))
        del self.suspended_s[member]
        if member.connection.state is SessionState.SUSPENDED:
            member.connection.resume()

    @precondition(lambda self: self.suspended_s)
    @rule()
    def expire(self) -> None:
        """The server ends a session as soon as it may, and tells the client later."""
        member, since_s = next(iter(self.suspended_s.items()))
        left_s = since_s + SESSION_TIMEOUT_S - self.world.clock.seconds()
        if left_s > 0:
            self.advance(left_s)
        member.connection.expire_unnoticed()
        self.check()
        self.advance(1)
        del self.suspended_s[member]
        member.connection.renew()

    @rule(number=members)
    def renew(self, number: int) -> None:
        member = self.pick(number)
        if member is not None:
            self.suspended_s.pop(member, None)
            member.connection.renew()

    @rule(
        number=members, seed=st.integers(0, 1000), rate=st.sampled_from([0, 0.2, 0.6])
    )
    def faults(self, number: int, seed: int, rate: float) -> None:
        member = self.pick(number)
        if member is not None:
            member.connection.faults = random.Random(seed)
            member.connection.fault_rate = rate

    @rule(
        topic=st.sampled_from("tu"),
        node=st.sampled_from(NODES),
        count=st.integers(0, 5),
    )
    def broker(self, topic: str, node: str, count: int) -> None:
        self.world.broker(topic, count, node)

    @rule(number=members, pick=st.integers(0, 20))
    def slow_stop(self, number: int, pick: int) -> None:
        member = self.pick(number)
        held = sorted(member.membership.held) if member is not None else []
        if member is not None and held:
            member.holder.slow_stops.add(held[pick % len(held)])

    @rule(number=members, pick=st.integers(0, 20))
    def slow_take(self, number: int, pick: int) -> None:
        member = self.pick(number)
        if member is not None:
            every = sorted(self.every())
            if every:
                member.holder.slow_takes.add(every[pick % len(every)])

    @rule()
    def finish(self) -> None:
        """Slow holders are done with what they began."""
        for member in self.members:
            member.holder.begin()
            for partition in list(member.holder.stopping):
                member.holder.finish(partition)

    @precondition(lambda self: len(self.java) < 2)
    @rule(topics=st.sampled_from(SUBSCRIPTIONS))
    def java_join(self, topics: str) -> None:
        self.count += 1
        peer = JavaPeer(self.world, f"m{self.count * 3 % 10}-java{self.count}", topics)
        self.java.append(peer)
        peer.join()

    @precondition(lambda self: self.java)
    @rule()
    def java_balance(self) -> None:
        for peer in self.java:
            peer.balance()

    @precondition(lambda self: self.java)
    @rule(dies=st.booleans())
    def java_leave(self, dies: bool) -> None:
        peer = self.java.pop()
        if dies:
            peer.held.clear()
            peer.connection.close()
        else:
            peer.leave()

    @rule(pick=st.integers(0, 20))
    def owner_deleted(self, pick: int) -> None:
        every = sorted(self.every())
        if every:
            one = every[pick % len(every)]
            if not any(one in peer.held for peer in self.java):
                path = LAYOUT.owner(GROUP, one.topic, one.partition)
                self.world.do(self.world.admin.delete(path))
                self.world.clock.advance(0)

    @rule(duration_s=st.sampled_from([0.05, 0.5, 3, 12]))
    def advance(self, duration_s: float) -> None:
        for _ in range(max(round(duration_s / 0.1), 1)):
            self.world.clock.advance(0.1)
            self.check()

    # -- what must be so -------------------------------------------------------------

    def every(self) -> set[TopicPartition]:
        """All partitions of topics that somebody subscribes to."""
        topics = {topic for one in self.living() for topic in one.topics}
        topics |= {topic for one in self.java for topic in one.topics}
        return {
            TopicPartition(topic, name)
            for topic in topics
            for name in self.world.partitions(topic)
        }

    @invariant()
    def check(self) -> None:
        readers: dict[TopicPartition, str] = {}
        for peer in self.java:
            for partition in peer.held:
                assert partition not in readers, f"{partition} is read by two"
                readers[partition] = peer.consumer
        for member in self.members:
            for partition, claim in member.holder.reading.items():
                if not claim.holds():
                    continue
                assert partition not in readers, f"{partition} is read by two"
                readers[partition] = member.consumer
                owner = (member.consumer, member.connection.session_id)
                assert self.world.owner(partition) == owner

    def quieten(self) -> None:
        for member in self.members:
            member.connection.fault_rate = 0
            member.connection.latency_s = 0
            member.holder.slow_stops.clear()
            member.holder.slow_takes.clear()
        while self.suspended_s:
            self.resume()
        for _ in range(4):
            self.finish()
            self.advance(6)
            self.java_balance_all()
        self.advance(6)

    def java_balance_all(self) -> None:
        for _ in range(3):
            for peer in self.java:
                peer.balance()
            self.advance(0.3)

    @rule()
    def quiet(self) -> None:
        """Everybody has what he should, and each partition an owner."""
        self.quieten()
        if not self.count:
            return
        held: dict[TopicPartition, str] = {}
        for one in self.living():
            assert one.membership.state is MembershipState.MEMBER
            wanted = self.world.shares(one.topics, one.consumer)
            assert set(one.holder.reading) == wanted == one.membership.held
            assert not one.membership.contested
            held.update(dict.fromkeys(wanted, one.consumer))
        for peer in self.java:
            assert peer.held == self.world.shares(peer.topics, peer.consumer)
            held.update(dict.fromkeys(peer.held, peer.consumer))
        assert held.keys() == self.every()
        for partition, consumer in held.items():
            owner = self.world.owner(partition)
            assert owner is not None and owner[0] == consumer

    @rule(
        change=st.sampled_from(["join", "leave", "broker"]),
        number=members,
        topics=st.sampled_from(SUBSCRIPTIONS),
    )
    def calm_change(self, change: str, number: int, topics: str) -> None:
        """What a member keeps through a change is not interrupted."""
        self.quieten()
        before = {one: dict(one.holder.reading) for one in self.living()}
        if change == "join":
            self.join(topics, 0)
        elif change == "leave":
            self.leave(number)
        else:
            self.world.broker("t", number + 1, "1-m")
        self.quieten()
        for member, claims in before.items():
            for partition in claims.keys() & member.holder.reading.keys():
                assert member.holder.reading[partition] is claims[partition]

    def teardown(self) -> None:
        """All leave: nothing of theirs stays, and no Deferred waits."""
        self.quiet()
        stops = [member.membership.stop() for member in self.members]
        self.finish()
        self.advance(12)
        for waiting in stops:
            assert waiting.called
        for member in self.members:
            assert member.started is not None and member.started.called
            assert member.connection.watching == {}
            assert not member.holder.reading
        while self.java:
            self.java_leave(dies=False)
        assert not self.count or self.world.members() == {}
        assert self.world.clock.getDelayedCalls() == []


GroupMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestGroupModel: Any = GroupMachine.TestCase
