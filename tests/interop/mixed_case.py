"""Consumers of ours and released Java consumers in one group: a case to inherit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import NamedTuple

from metatwist.client.group.shares import share_by
from metatwist.client.settings import Strategy
from metatwist.coordination.names import PartitionName

from .client_case import GROUP, WAIT_S, JavaClientCase
from .driver_session import ClientZooKeeper, Consumption, DriverSession, Received
from .group_tree import GroupTree
from .java_driver import JavaDriver
from .line_driver import LineDriver
from .members.member_driver import MemberDriver
from .ownership import Delivery
from .systems import PARTITIONS, TOPIC
from .traffic import Traffic

SESSION_MS = 2000
SYNC_MS = 500
"""Seven times this long a Java consumer tries to get what it should have; then it
gives up (spec client W3)."""
_STRATEGIES = {"DEFAULT": Strategy.DEFAULT, "CONSIST": Strategy.CONSISTENT_HASH}

Topics = Collection[str]


class Found(NamedTuple):
    """A group in the tree: its members, and the owners by topic and partition."""

    members: list[str]
    owners: dict[str, dict[str, str]]


class MixedCase(JavaClientCase):
    """Members are sessions; `self.drivers` are the processes that hold them, also those
    that have ended."""

    def setUp(self) -> None:
        """See JavaClientCase."""
        super().setUp()
        self.drivers: list[LineDriver] = [self.driver]

    def zookeeper(self) -> ClientZooKeeper:
        """How members find the coordinator."""
        return ClientZooKeeper(
            self.system.address, session_timeout_ms=SESSION_MS, sync_time_ms=SYNC_MS
        )

    def session(self, name: str) -> DriverSession:
        """A session of the Java client."""
        return self.driver.session(name, self.zookeeper())

    def ours(self, name: str) -> DriverSession:
        """A session of our client, in a process of its own."""
        return self.start(MemberDriver(self.work_dir(name)), name)

    def alone(self, name: str) -> DriverSession:
        """A session of the Java client, in a process of its own."""
        return self.start(JavaDriver(self.work_dir(name)), name)

    def work_dir(self, name: str) -> Path:
        """For the files of a process."""
        return self.directory / f"member-{name}"

    def start(self, driver: LineDriver, name: str) -> DriverSession:
        """Start a process with one session."""
        self.addCleanup(driver.kill)
        driver.start()
        self.drivers.append(driver)
        return driver.session(name, self.zookeeper())

    def consume(
        self,
        session: DriverSession,
        topics: Sequence[str] = (TOPIC,),
        strategy: str = "DEFAULT",
    ) -> DriverSession:
        """Join the group by the session's name; answers the session."""
        how = Consumption(consumer_id=session.name, strategy=strategy)
        session.consume(GROUP, topics, how)
        return session

    def wait_for_shares(
        self, members: Mapping[str, Topics], strategy: str = "DEFAULT"
    ) -> None:
        """Those members, by name with the topics of each, come to own just what the
        algorithm gives them."""
        names = sorted(f"{GROUP}_{name}" for name in members)
        topics = {topic for its in members.values() for topic in its}
        trees = {topic: GroupTree(self.kazoo, GROUP, topic) for topic in topics}
        expected = {
            topic: owners_of(
                [f"{GROUP}_{name}" for name in members if topic in members[name]],
                _STRATEGIES[strategy],
            )
            for topic in topics
        }
        found = Found(names, expected)

        def look() -> Found:
            owners = {topic: tree.owners() for topic, tree in trees.items()}
            return Found(self.tree.members(), owners)

        try:
            self.wait_until(lambda: look() == found, "members own their shares")
        except self.failureException:
            self.fail(f"expected {found}, but there is {look()}")

    def everything(self) -> list[Received]:
        """All that any member was given, in no particular order."""
        return [one for _, one in self._all()]

    def deliveries(self) -> list[Delivery]:
        """The same, in order of time, with who was given it."""
        found = [
            Delivery(
                f"{GROUP}_{name}",
                one.topic,
                one.partition or "",
                one.next_offset or 0,
                one.at_s or 0,
            )
            for name, one in self._all()
        ]
        return sorted(found, key=lambda one: one.at_s)

    def _all(self) -> Iterable[tuple[str, Received]]:
        for driver in self.drivers:
            names = {event["session"] for event in driver.events("received")}
            for name in sorted(names):
                for one in DriverSession(driver, name).received():
                    yield name, one

    def wait_until_all_came(self, traffics: Sequence[Traffic], topic: str) -> None:
        """All that was acknowledged comes to be received, just as it was sent."""
        expected = {
            one.as_received(topic)
            for traffic in traffics
            for one in traffic.acknowledged
        }
        self.assertGreater(len(expected), 10)
        self.wait_until_none(
            lambda: expected - set(self.everything()), "sent but not received"
        )

    def wait_until_none(self, left: Callable[[], Sized], what: str) -> None:
        """Return once nothing is left; fail with what is."""
        try:
            self.wait_until(lambda: not left(), what)
        except self.failureException:
            self.fail(f"{what} in {WAIT_S} s: {str(left())[:2000]}")

    def wait_until_committed(self, traffics: Sequence[Traffic], topic: str) -> None:
        """The group's offsets come to be the ends of the partitions."""
        tree, ends = GroupTree(self.kazoo, GROUP, topic), ends_of(traffics)
        self.wait_until(lambda: tree.offsets() == ends, "all is committed")


def owners_of(members: Sequence[str], strategy: Strategy) -> dict[str, str]:
    """By partition of a topic: who should own it."""
    partitions = [PartitionName(0, number) for number in range(PARTITIONS)]
    return {
        str(partition): member
        for member in members
        for partition in share_by(strategy)(member, members, partitions)
    }


def ends_of(traffics: Iterable[Traffic]) -> dict[str, int]:
    """Where the partitions end that nobody else sends to."""
    ends: dict[str, int] = {}
    for traffic in traffics:
        for one in traffic.acknowledged:
            partition = one.sent.partition or ""
            ends[partition] = max(ends.get(partition, 0), one.next_offset)
    return ends
