"""One partition on its way to where it should be: ours and read, or free.

    IDLE        nothing of ours
    CLAIMING    the owner node is asked for; with a timer, again after a failure
    CONTESTED   another has it; its end is watched
    CLAIMED     the node is ours, the holder does not know yet
    TAKING      the holder begins to read it
    HELD        the holder reads it
    GIVING_UP   the holder stops, waits for listeners, commits
    FREEING     the node is being deleted

`drive` is the table of what comes next; partitions do not wait for each other (W2, W3,
W7). In GIVING_UP nothing begins before the holder has answered, even if the session is
over by then.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.client.bounded import drop
from metatwist.client.group.grant import Grant
from metatwist.client.group.lease import Lease
from metatwist.client.group.owner_nodes import OwnerNodes, Ownership
from metatwist.client.group.waiting import RETRY, persist, reason_of
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import Claim
from metatwist.coordination.interface import EventKind

CONTEST_PERIOD_S = 5.0
"""Between looks at an owner node of another's, beside the watch."""


class SlotState(Enum):
    """See the module."""

    IDLE = "idle"
    CLAIMING = "claiming"
    CONTESTED = "contested"
    CLAIMED = "claimed"
    TAKING = "taking"
    HELD = "held"
    GIVING_UP = "giving up"
    FREEING = "freeing"


GIVEN = (SlotState.TAKING, SlotState.HELD, SlotState.GIVING_UP)
_OURS = (SlotState.CLAIMED, *GIVEN)
_UNSETTLED = (SlotState.CLAIMING, SlotState.CLAIMED, SlotState.TAKING)


@frozen
class Ground:
    """What all slots of a consumer stand on.

    Attributes:
        consumer: its id, as owner nodes say it.
        holder: an IPartitionHolder.
        take_limit_s: how long a partition that is to be given back waits for the end
            of its `take`.
        contest_limit_s: after as long in another's hands the user is told.
        may_claim: whether new claims may be made now.
        hand_over: to be called with a slot that is CLAIMED.
        changed: called when a slot's state is another.
    """

    clock: Any
    coordinator: Any
    nodes: OwnerNodes
    lease: Lease
    consumer: str
    holder: Any
    take_limit_s: float
    contest_limit_s: float
    may_claim: Callable[[], bool]
    hand_over: Callable[[Slot], object]
    changed: Callable[[], object]


class Slot:
    """One partition of the group, seen by one consumer.

    Attributes:
        partition, state: which and how.
        owner: who has it while it is contested.
    """

    _log = Logger()

    def __init__(self, ground: Ground, partition: TopicPartition) -> None:
        self.partition = partition
        self.state = SlotState.IDLE
        self.owner: str | None = None
        self._ground = ground
        self._wanted = False
        self._grant: Grant | None = None
        self._freeing: Deferred[Any] | None = None
        self._timer: IDelayedCall | None = None
        self._failures = 0
        self._contested_s: float | None = None
        self._is_told = False

    # -- from outside ----------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        """It should be ours."""
        return self._wanted

    @property
    def _is_watched(self) -> bool:
        return self._grant is not None and self._grant.is_watched

    @property
    def is_settled(self) -> bool:
        """Nothing more will happen to it by itself soon, unless it is to be freed."""
        is_waiting = self.state is SlotState.IDLE and self._wanted
        return not is_waiting and self.state not in _UNSETTLED

    @property
    def is_forgettable(self) -> bool:
        """Neither wanted nor anything of ours."""
        return self.state is SlotState.IDLE and not self._wanted

    def want(self, wanted: bool) -> None:
        """Whether it should be ours from now on."""
        self._wanted = wanted
        self.drive()

    def drive(self) -> None:
        """Take the next step, if there is one to take."""
        state = self.state
        if self._wanted:
            if state is SlotState.IDLE and self._ground.may_claim():
                self._claim()
            elif state is SlotState.HELD and not self._is_watched:
                self.verify()
        elif state is SlotState.CONTESTED:
            self._rest()
        elif state is SlotState.CLAIMED:
            self._free()
        elif state is SlotState.CLAIMING and self._timer is not None:
            self._free()  # an attempt that failed may have made the node
        elif state is SlotState.HELD:
            self._give_up()
        elif state is SlotState.TAKING and self._timer is None:
            self._after(self._ground.take_limit_s, self._give_up)

    def take(self) -> Claim:
        """It is handed over: TAKING until `taken` with the same claim."""
        grant = self._grant
        if self.state is not SlotState.CLAIMED or grant is None:
            raise AssertionError(f"{self.partition} is {self.state}")
        self._become(SlotState.TAKING)
        return Claim(self._ground.consumer, grant.session_id, grant.holds)

    def taken(self, claim: Claim) -> None:
        """The holder has begun to read."""
        grant = self._grant
        is_this = grant is not None and claim.holds == grant.holds
        if self.state is SlotState.TAKING and is_this:
            self._become(SlotState.HELD)
            self.drive()

    def verify(self) -> None:
        """Look whether the node is still ours."""
        if self.state in _OURS and self._grant is not None:
            look = self._ground.nodes.look
            self._grant.ask(look, self._verified, self._not_verified)

    def session_over(self) -> None:
        """The node is gone with its session; the holder is told by who calls this."""
        self._end_grant()
        drop(self._freeing)
        if self.state is not SlotState.GIVING_UP:
            self._become(SlotState.IDLE)

    def abandon(self) -> None:
        """Wait for the holder no longer; it is told by who calls this."""
        self._free()

    # -- claiming --------------------------------------------------------------------

    def _claim(self) -> None:
        ground = self._ground
        session_id = ground.coordinator.session_id
        self._end_grant()
        grant = Grant(ground.lease, self.partition, session_id, self._fired)
        self._grant = grant
        self._become(SlotState.CLAIMING)
        grant.ask(ground.nodes.claim, self._claimed, self._not_claimed)

    def _claimed(self, found: Ownership) -> None:
        if found.watch is None:  # it went between two requests
            self._claim_later()
        elif found.ours:
            self._failures, self._contested_s, self.owner = 0, None, None
            self._become(SlotState.CLAIMED)
            if self._wanted:
                self._ground.hand_over(self)
            else:
                self._free()
        else:
            self._contested(found.owner)

    def _contested(self, owner: str | None) -> None:
        self._failures = 0
        self.owner = owner
        self._become(SlotState.CONTESTED)
        self._after(CONTEST_PERIOD_S, self._claim_again)
        now_s = self._ground.clock.seconds()
        if self._contested_s is None:
            self._contested_s, self._is_told = now_s, False
        elif not self._is_told and self._lasts(now_s - self._contested_s):
            self._is_told = True
            self._ground.holder.trouble(
                f"{self.partition} is held by {self.owner}, which does not give it up"
            )
        self.drive()

    def _lasts(self, contested_s: float) -> bool:
        return contested_s >= self._ground.contest_limit_s

    def _not_claimed(self, failure: Failure) -> None:
        self._say(failure, "claim")
        self._claim_later()

    def _claim_later(self) -> None:
        self._failures += 1
        self._after(RETRY.pause_s(self._failures), self._claim_again)
        self.drive()

    def _claim_again(self) -> None:
        self._end_grant()
        self._become(SlotState.IDLE)
        self.drive()

    def _rest(self) -> None:
        self._contested_s, self.owner = None, None
        self._end_grant()
        self._become(SlotState.IDLE)

    # -- keeping ---------------------------------------------------------------------

    def _verified(self, found: Ownership) -> None:
        self._failures = 0
        if self.state in _OURS and not found.ours:
            self._lost()

    def _not_verified(self, failure: Failure) -> None:
        self._say(failure, "look at")
        if self.state is SlotState.HELD and self._timer is None:
            self._failures += 1
            self._after(RETRY.pause_s(self._failures), self.verify)

    def _lost(self) -> None:
        """Somebody has deleted the node, so that anybody may have the partition."""
        was_given = self.state in GIVEN
        self._end_grant()
        self._log.warn("the owner node of {it} is not ours any more", it=self.partition)
        if self.state is not SlotState.GIVING_UP:
            self._become(SlotState.IDLE)
        if was_given:
            self._ground.holder.lose([self.partition])
        self.drive()

    # -- giving back -----------------------------------------------------------------

    def _give_up(self) -> None:
        self._become(SlotState.GIVING_UP)
        giving = maybeDeferred(self._ground.holder.give_up, [self.partition])
        giving.addErrback(self._holder_failed).addCallback(self._given_up)

    def _holder_failed(self, failure: Failure) -> None:
        self._log.failure("giving up a partition failed", failure=failure)

    def _given_up(self, _: object) -> None:
        if self.state is not SlotState.GIVING_UP:
            return
        if self._grant is None:
            self._become(SlotState.IDLE)
            self.drive()
        else:
            self._free()

    def _free(self) -> None:
        grant = self._grant
        self._end_grant()
        if grant is None or self.state is SlotState.FREEING:
            return
        session_id, coordinator = grant.session_id, self._ground.coordinator
        self._become(SlotState.FREEING)
        self._freeing = freeing = persist(
            self._ground.clock,
            partial(self._ground.nodes.release, self.partition, session_id),
            lambda: session_id != coordinator.session_id,
        )
        freeing.addBoth(self._freed, freeing)

    def _freed(self, _: object, freeing: Deferred[Any]) -> None:
        if self._freeing is freeing and self.state is SlotState.FREEING:
            self._freeing = None
            self._become(SlotState.IDLE)
            self.drive()

    # -- steps -----------------------------------------------------------------------

    def _become(self, state: SlotState) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self.state = state
        self._ground.changed()

    def _after(self, delay_s: float, call: Callable[[], None]) -> None:
        self._timer = self._ground.clock.callLater(delay_s, self._wake, call)

    def _wake(self, call: Callable[[], None]) -> None:
        self._timer = None
        call()

    def _say(self, failure: Failure, what: str) -> None:
        self._log.debug(
            "could not {what} {it}: {reason}",
            what=what,
            it=self.partition,
            reason=reason_of(failure),
        )

    def _end_grant(self) -> None:
        grant, self._grant = self._grant, None
        if grant is not None:
            grant.end()

    def _fired(self, kind: EventKind) -> None:
        if self.state is SlotState.CONTESTED:
            self._claim_again()
        elif kind is EventKind.DELETED:
            self._lost()
        else:
            self.verify()
