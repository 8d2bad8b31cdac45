"""Our consumers and released Java consumers in one group, while members come and go.

METATWIST_CHURN_S is how long (default 10), METATWIST_CHURN_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from . import mixed_case
from .churn import Churn, Kind, Member
from .client_case import GROUP
from .driver_session import DriverSession
from .mixed_case import Topics
from .ownership import Delivery, OwnershipRecord
from .systems import (
    OTHER_TOPIC,
    TOPIC,
    EmbeddedSystem,
    EnsembleSystem,
    OriginalSystem,
    System,
)
from .traffic import Traffic

pytestmark = [pytest.mark.java, pytest.mark.process, pytest.mark.timeout(600)]

CHURN_S = float(os.environ.get("METATWIST_CHURN_S", "10"))
UNCOMMITTED_S = 3.0
"""What a member that is killed has delivered that long before may come again: more than
the commit period and the time that a commit takes on a busy machine."""


class ChurnCase(mixed_case.MixedCase):
    """To be inherited, with `make_system`."""

    strategy = "DEFAULT"
    choices: Sequence[tuple[str, ...]] = [(TOPIC,)]
    duration_s = CHURN_S

    def churn(self) -> Churn:
        """Nobody there yet."""
        seed = int(
            os.environ.get("METATWIST_CHURN_SEED")
            or random.SystemRandom().getrandbits(32)
        )
        kinds = [
            Kind("ours", self.ours, most=4),
            Kind("java", self.session, most=3, can_be_killed=False),
            Kind("alone", self.alone, most=1),
        ]
        return Churn(seed, kinds, self.choices, self.join_group)

    def join_group(self, session: DriverSession, topics: Sequence[str]) -> None:
        """See Churn."""
        self.consume(session, topics, self.strategy)

    def senders(self, topic: str, stack: ExitStack) -> list[Traffic]:
        """One of ours and one of Java, at work until the stack ends."""
        made = [
            (self.ours(f"our-sender-{topic}"), b"ours"),
            (self.session(f"java-sender-{topic}"), b"java"),
        ]
        for session, _ in made:
            session.publish(topic)
        return [
            stack.enter_context(Traffic(session, topic, prefix))
            for session, prefix in made
        ]

    def settled(self, churn: Churn) -> None:
        """Everybody there comes to own just what is theirs."""
        members: dict[str, Topics] = {
            one.session.name: one.topics for one in churn.present
        }
        self.wait_for_shares(members, self.strategy)

    def come_and_go(self) -> None:
        """All of it; see the tests."""
        churn = self.churn()
        topics = sorted({topic for choice in self.choices for topic in choice})
        try:
            with OwnershipRecord(self.system.address, GROUP, topics) as record:
                self.run_churn(churn, topics)
            self.check_owners(churn, record)
        except BaseException:
            print(churn.story())
            raise
        print(churn.story())

    def run_churn(self, churn: Churn, topics: Sequence[str]) -> None:
        """Until everything is committed and everybody has left."""
        with ExitStack() as stack:
            traffics = {topic: self.senders(topic, stack) for topic in topics}
            churn.begin()
            self.settled(churn)
            churn.run(self.duration_s)
            churn.cover(topics)
            self.settled(churn)
        for topic, its in traffics.items():
            self.assertEqual([one for traffic in its for one in traffic.failed], [])
            self.wait_until_all_came(its, topic)
            self.wait_until_committed(its, topic)
        for member in list(churn.present):
            member.session.close()
        self.wait_for_shares({})
        for topic, its in traffics.items():
            self.wait_until_committed(its, topic)

    def check_owners(self, churn: Churn, record: OwnershipRecord) -> None:
        """No two owners, and nothing twice but what could not have been committed."""
        deliveries = self.deliveries()
        again = repeated(deliveries)
        members = {one.id: one for one in [*churn.present, *churn.gone]}
        print(
            f"{len(deliveries)} deliveries, {len(again)} of them again,"
            f" {record.handovers} handovers"
        )
        self.assertEqual(record.contradicted(deliveries), [])
        excused = {
            first for first, _ in again if may_repeat(members[first.member], first)
        }
        self.assertEqual([pair for pair in again if pair[0] not in excused], [])


def repeated(deliveries: Sequence[Delivery]) -> list[tuple[Delivery, Delivery]]:
    """The first and each later delivery of a message."""
    firsts: dict[tuple[str, str, int], Delivery] = {}
    again = []
    for one in deliveries:
        first = firsts.setdefault(one.message, one)
        if first is not one:
            again.append((first, one))
    return again


def may_repeat(member: Member, first: Delivery) -> bool:
    """It may not have been committed: its member was killed just after, or is a Java
    consumer, which can close between a message and its mark."""
    if member.left_s is None:
        return False
    can_forget = member.was_killed or member.kind.name != "ours"
    return can_forget and first.at_s > member.left_s - UNCOMMITTED_S


class ChurnOnEnsembleTest(ChurnCase):
    """Our broker on a real ZooKeeper."""

    choices = [(TOPIC,), (OTHER_TOPIC, TOPIC)]

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EnsembleSystem(work_dir)

    def test_two_topics(self) -> None:
        """Members with one topic and with two come and go: each message of both topics
        is delivered, no partition has two owners or, in the end, none."""
        self.come_and_go()


class ChurnOnEmbeddedTest(ChurnCase):
    """Our broker with nothing beside it."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EmbeddedSystem(work_dir)

    def test_one_topic(self) -> None:
        """Members come and go: each message is delivered, no partition has two owners
        or, in the end, none."""
        self.come_and_go()


class ChurnOnOriginalTest(ChurnCase):
    """The released Java broker."""

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return OriginalSystem(work_dir)

    def test_one_topic(self) -> None:
        """Members come and go: each message is delivered, no partition has two owners
        or, in the end, none."""
        self.come_and_go()


class ConsistentHashTest(ChurnCase):
    """All members share by consistent hash."""

    strategy = "CONSIST"
    duration_s = CHURN_S / 2

    def make_system(self, work_dir: Path) -> System:
        """See JavaClientCase."""
        return EmbeddedSystem(work_dir)

    def test_one_topic(self) -> None:
        """Members come and go: each message is delivered, no partition has two owners
        or, in the end, none."""
        self.come_and_go()
