"""Partitions that are given by hand: no group, no coordinator, no rebalance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.discovery.rounds import Rounds
from metatwist.client.errors import ClientError, GroupError
from metatwist.client.group.membership import MembershipState
from metatwist.client.group.waiting import RETRY, Conditions, all_of, reason_of
from metatwist.client.interfaces import IAssignment, IDiscovery
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import Claim
from metatwist.coordination.names import PartitionName

PERIOD_S = 5.0
Partitions = Mapping[str, Iterable[PartitionName]]
Finder = Callable[[frozenset[str]], Deferred[Partitions]]
"""Fires with the partitions of topics that are known at the time."""


def all_partitions(discovery: IDiscovery) -> Finder:
    """All that discovery knows; brokers are asked anew for the next time."""
    asked: Any = discovery

    def find(topics: frozenset[str]) -> Deferred[Partitions]:
        names = sorted(topics)

        def found(partitions: list[tuple[PartitionName, ...]]) -> Partitions:
            for topic in names:
                asked.refresh(topic)
            return dict(zip(names, partitions, strict=True))

        return all_of([asked.partitions(topic) for topic in names]).addCallback(found)

    return find


@implementer(IAssignment)
class FixedAssignment:
    """IAssignment of partitions that are all ours for as long as it lasts.

    `partitions` are those of each topic, or a sequence that goes for every topic, or a
    finder, which is asked again every `period_s`: what is new is taken. What it names
    no more stays ours, because its broker may only be away.

    Their claims hold always and have no session, so that nothing fences commits: that
    two consumers do not read the same is the user's affair.

    Attributes:
        held: what the holder has.
        state: as that of GroupMembership.
    """

    _log = Logger()

    def __init__(
        self,
        partitions: Partitions | Sequence[PartitionName] | Finder,
        consumer: str,
        clock: Any,
        period_s: float = PERIOD_S,
    ) -> None:
        self.held: frozenset[TopicPartition] = frozenset()
        self.state = MembershipState.IDLE
        self._partitions = partitions
        self._claim = Claim(consumer)
        self._period_s = period_s
        self._rounds = Rounds(clock, self._look)
        self._failures = 0
        self._trouble: str | None = None
        self._holder: Any = None
        self._topics: frozenset[str] = frozenset()
        self._started: Deferred[None] | None = None
        self._conditions = Conditions()

    def start(self, holder: Any, topics: frozenset[str]) -> Deferred[None]:
        """Take the partitions of these topics; fires when the holder has begun, at once
        if there are none yet.

        Failures to find them that may pass are told as trouble, and it waits until they
        have passed. Fails with what finding them fails with for good, GroupError when
        stopped before. Cancelling stops it.
        """
        if self.state is not MembershipState.IDLE:
            return fail(GroupError("was started before"))
        self.state = MembershipState.JOINING
        self._holder, self._topics = holder, topics
        started: Deferred[None] = Deferred(self._cancelled)
        self._started = started
        if callable(self._partitions):
            self._rounds.start()
        elif isinstance(self._partitions, Mapping):
            self._take(self._partitions)
        else:
            self._take(dict.fromkeys(topics, self._partitions))
        return started

    def _cancelled(self, _: Deferred[None]) -> None:
        self.stop()

    # -- looking -----------------------------------------------------------------------

    def _look(self) -> Deferred[float]:
        """One round; fires with the pause after it."""
        find: Any = self._partitions
        finding: Deferred[Any] = find(self._topics)
        return finding.addCallback(self._found).addErrback(self._not_found)

    def _found(self, found: Partitions) -> float:
        self._failures, self._trouble = 0, None
        self._take(found)
        return self._period_s

    def _not_found(self, failure: Failure) -> float:
        if self._is_leaving:
            return self._period_s
        error = failure.value
        may_pass = isinstance(error, ClientError) and error.retriable
        if self.state is MembershipState.JOINING and not may_pass:
            self._end_start(failure)
            return self._period_s
        if not isinstance(error, ClientError):
            self._log.failure("finding partitions", failure)
        self._tell(reason_of(failure))
        self._failures += 1
        return min(self._period_s, RETRY.pause_s(self._failures))

    def _tell(self, reason: str) -> None:
        """Once for the same reason in a row."""
        if reason != self._trouble:
            self._trouble = reason
            self._holder.trouble(f"partitions cannot be found: {reason}")

    def _take(self, found: Partitions) -> None:
        if self._is_leaving:
            return
        wanted = {
            TopicPartition(topic, one)
            for topic in self._topics
            for one in found.get(topic, ())
        }
        self.state = MembershipState.MEMBER
        new = sorted(wanted - self.held)
        if not new:
            self._joined(None)
            return
        self.held = self.held.union(new)
        # Not a part of the round, whose end would cancel it.
        taking: Deferred[None] = self._holder.take(dict.fromkeys(new, self._claim))
        taking.addCallbacks(self._joined, self._end_start)

    def _joined(self, _: object) -> None:
        started, self._started = self._started, None
        if started is not None:
            started.callback(None)

    def _end_start(self, failure: Failure) -> None:
        """It has failed for good."""
        if self.state is MembershipState.JOINING:
            self.state = MembershipState.LEFT
            self._rounds.stop()
        started, self._started = self._started, None
        if started is not None:
            started.errback(failure)

    # -- leaving -----------------------------------------------------------------------

    @property
    def _is_leaving(self) -> bool:
        return self.state in (MembershipState.LEAVING, MembershipState.LEFT)

    def stop(self) -> Deferred[None]:
        """Give up everything; fires when the holder has stopped, however often it is
        called. Cancelling stops this wait alone."""
        if not self._is_leaving:
            self._leave()
        return self._conditions.when(lambda: self.state is MembershipState.LEFT)

    def _leave(self) -> None:
        self.state = MembershipState.LEAVING
        self._rounds.stop()
        started, self._started = self._started, None
        if started is not None:
            started.errback(GroupError("stopped before it had begun"))
        if self.held:
            self._holder.give_up(sorted(self.held)).addCallback(self._is_left)
        else:
            self._is_left(None)

    def _is_left(self, _: object) -> None:
        self.held = frozenset()
        self.state = MembershipState.LEFT
        self._conditions.check()
