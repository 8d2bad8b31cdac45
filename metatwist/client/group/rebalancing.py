"""All partitions of a consumer, driven to where they should be (spec client 10.3).

What stays is not touched (W1). What goes is given back before anything new is asked
for: stop, commit, delete the owner node, in that order, each partition for itself. What
comes is claimed by owner nodes alone, and given to the holder in groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.group.lease import Lease
from metatwist.client.group.owner_nodes import OwnerNodes
from metatwist.client.group.slot import GIVEN, Ground, Slot, SlotState
from metatwist.client.group.waiting import Conditions
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import Claim


@frozen
class Limits:
    """How long is waited, in seconds, for the end of a `take` of what is to be given
    back, and before the user is told of what another does not give up."""

    take_s: float
    contest_s: float


@frozen
class Place:
    """A consumer's place in its group: its id, its owner nodes, and its lease."""

    consumer: str
    nodes: OwnerNodes
    lease: Lease


class Rebalancing:
    """The slots of one consumer; `may_claim` says whether new claims may be made."""

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        coordinator: Any,
        place: Place,
        limits: Limits,
        may_claim: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._coordinator = coordinator
        self._place = place
        self._limits = limits
        self._may_claim = may_claim
        self._holder: Any = None
        self._ground: Ground | None = None
        self._slots: dict[TopicPartition, Slot] = {}
        self._handed_over: list[Slot] = []
        self._handing: IDelayedCall | None = None
        self._conditions = Conditions()

    def start(self, holder: Any) -> None:
        """Give partitions to this IPartitionHolder."""
        self._holder = holder
        self._ground = Ground(
            clock=self._clock,
            coordinator=self._coordinator,
            nodes=self._place.nodes,
            lease=self._place.lease,
            consumer=self._place.consumer,
            holder=holder,
            take_limit_s=self._limits.take_s,
            contest_limit_s=self._limits.contest_s,
            may_claim=self._may_claim,
            hand_over=self._hand_over,
            changed=self._conditions.check,
        )

    # -- how it stands ---------------------------------------------------------------

    @property
    def held(self) -> frozenset[TopicPartition]:
        """What the holder has, also what it is about to begin or to stop."""
        return frozenset(
            name for name, slot in self._slots.items() if slot.state in GIVEN
        )

    @property
    def contested(self) -> Mapping[TopicPartition, str]:
        """Who has what should be ours."""
        return {
            name: slot.owner
            for name, slot in self._slots.items()
            if slot.owner is not None and slot.is_wanted
        }

    def settled(self) -> Deferred[None]:
        """Fires when each partition is held, contested, or on its way out."""
        return self._conditions.when(
            lambda: all(slot.is_settled for slot in self._slots.values())
        )

    def stopped(self) -> Deferred[None]:
        """Fires when the holder has nothing any more."""
        return self._conditions.when(lambda: not self.held)

    def left(self) -> Deferred[None]:
        """Fires when nothing is ours any more."""
        return self._conditions.when(
            lambda: all(slot.is_forgettable for slot in self._slots.values())
        )

    # -- driving ---------------------------------------------------------------------

    def want(self, partitions: Iterable[TopicPartition]) -> None:
        """These should be ours, and no others."""
        wanted = frozenset(partitions)
        for name, slot in list(self._slots.items()):
            if name not in wanted:
                slot.want(False)
            if slot.is_forgettable:
                del self._slots[name]
        for name in sorted(wanted, key=_by_name):
            slot = self._slots.get(name) or self._begin(name)
            slot.want(True)

    def _begin(self, name: TopicPartition) -> Slot:
        if self._ground is None:
            raise AssertionError("not started")
        slot = self._slots[name] = Slot(self._ground, name)
        return slot

    def verify(self) -> None:
        """Look whether what we hold is ours: a watch may have been lost."""
        for slot in list(self._slots.values()):
            slot.verify()

    def session_over(self) -> None:
        """All owner nodes are gone with their session."""
        lost = sorted(self.held, key=_by_name)
        for slot in self._slots.values():
            slot.session_over()
        self._lose(lost)

    def abandon(self) -> None:
        """Wait for the holder no longer."""
        late = sorted(self.held, key=_by_name)
        self._lose(late)
        for name in late:
            self._slots[name].abandon()

    def _lose(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._holder.lose(partitions)

    # -- handing over ----------------------------------------------------------------

    def _hand_over(self, slot: Slot) -> None:
        self._handed_over.append(slot)
        if self._handing is None:
            # A turn later more answers have come: one call for all of them.
            self._handing = self._clock.callLater(0, self._give)

    def _give(self) -> None:
        self._handing = None
        slots, self._handed_over = self._handed_over, []
        ready = dict.fromkeys(one for one in slots if one.state is SlotState.CLAIMED)
        claims = {slot.partition: slot.take() for slot in ready}
        if claims:
            taking = maybeDeferred(self._holder.take, claims)
            taking.addErrback(self._holder_failed)
            taking.addCallback(self._taken, claims)

    def _holder_failed(self, failure: Failure) -> None:
        self._log.failure("taking partitions failed", failure=failure)

    def _taken(self, _: object, claims: Mapping[TopicPartition, Claim]) -> None:
        for name, claim in claims.items():
            slot = self._slots.get(name)
            if slot is not None:
                slot.taken(claim)


def _by_name(partition: TopicPartition) -> tuple[str, str]:
    return partition.topic, str(partition.partition)
