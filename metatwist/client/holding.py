"""The partitions of a consumer: taken, given up and lost as its assignment says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, DeferredList, maybeDeferred, succeed
from twisted.logger import Logger
from zope.interface import implementer

from metatwist.client.bounded import at_most
from metatwist.client.commits import Commits
from metatwist.client.events import Assigned, Event, GroupTrouble, Revoked
from metatwist.client.held import HeldContext, HeldPartition
from metatwist.client.hooks import ConsumerHooks
from metatwist.client.interfaces import IPartitionHolder
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.interface import Claim
from metatwist.coordination.formats import OffsetRecord

Partitions = Sequence[TopicPartition]
_DOUBTED = "doubted"
_DOUBT = (
    "no contact with the coordinator: the partitions may be given to others soon, so"
    " that nothing is read or committed until there is contact again"
)
_ASSIGNING = "on_assign"
_MOST_REMEMBERED = 10_000


@implementer(IPartitionHolder)
class Holding:
    """See `IPartitionHolder`.

    `limit_s` bounds each wait for the user: a listener that is to end, a hook.
    """

    _log = Logger()

    def __init__(
        self, context: HeldContext, hooks: ConsumerHooks, limit_s: float
    ) -> None:
        self.held: dict[TopicPartition, HeldPartition] = {}
        self._context = context
        self._commits: Commits = context.commits
        self._emit: Callable[[Event], object] = context.emit
        self._hooks = hooks
        self._limit_s = limit_s
        self._doubted = False
        self._paused: set[TopicPartition] = set()
        self._revoking: list[tuple[HeldPartition, Deferred[None]]] = []
        self._done: dict[TopicPartition, tuple[OffsetRecord, OffsetRecord | None]] = {}

    # -- IPartitionHolder --------------------------------------------------------------

    def take(self, claims: Mapping[TopicPartition, Claim]) -> Deferred[None]:
        """See `IPartitionHolder`. Offsets are loaded while `on_assign` runs, but
        nothing is handed over before it has ended."""
        taken = tuple(claims)
        for partition, claim in claims.items():
            if partition in self.held:
                self.held[partition].abandon()
            held = HeldPartition(
                partition, claim, self._context, self._done.pop(partition, None)
            )
            self.held[partition] = held
            if self._doubted:
                held.hold(_DOUBTED)
            if partition in self._paused:
                held.hold("paused")
            held.hold(_ASSIGNING)
            held.begin()
        begun = [self.held[partition] for partition in taken]
        self._emit(Assigned(taken))

        def assigned(_result: object) -> None:
            for held in begun:
                held.unhold(_ASSIGNING)

        return self._call(self._hooks.on_assign, taken).addBoth(assigned)

    def give_up(self, partitions: Partitions) -> Deferred[None]:
        """Listeners end, `on_revoke` runs, offsets are stored: at most twice
        `limit_s`. What is given up in one turn is revoked together."""
        given = [self.held[one] for one in partitions if one in self.held]
        if not given:
            return succeed(None)
        over = [self._revoked_soon(one) for one in given]
        return DeferredList(over).addCallback(lambda _: None)

    def _revoked_soon(self, held: HeldPartition) -> Deferred[None]:
        over: Deferred[None] = Deferred()

        def stopped(_result: object) -> None:
            if not self._revoking:
                self._context.clock.callLater(0, self._revoke_stopped)
            self._revoking.append((held, over))

        held.stop(self._limit_s).addBoth(stopped)
        return over

    def _revoke_stopped(self) -> None:
        revoking, self._revoking = self._revoking, []
        held = [one for one, _ in revoking]

        def over(_result: object) -> None:
            for _, waiting in revoking:
                waiting.callback(None)

        ending = Deferred.fromCoroutine(self._revoke(held))
        ending.addErrback(lambda bad: self._log.failure("cannot give up", bad))
        ending.addBoth(over)

    async def _revoke(self, held: list[HeldPartition]) -> None:
        given = tuple(one.partition for one in held if self._has(one))
        limit_s = self._limit_s / 2
        await self._call(self._hooks.on_revoke, given, limit_s)
        committing = self._commits.commit(given)
        what = "the commit of what is given up"
        await at_most(self._context.clock, limit_s, committing, what)
        gone = [one for one in held if self._has(one)]
        for one in gone:
            self._forget(one)
        if gone:
            self._emit(Revoked(tuple(one.partition for one in gone), lost=False))

    def _has(self, held: HeldPartition) -> bool:
        return self.held.get(held.partition) is held

    def lose(self, partitions: Partitions) -> None:
        """What was done is remembered, for if they come back."""
        lost = tuple(one for one in partitions if one in self.held)
        if not lost:
            return
        for partition in lost:
            held = self.held[partition]
            held.abandon()
            self._forget(held, remember=True)
        self._emit(Revoked(lost, lost=True))
        self._call(self._hooks.on_lost, lost)

    def doubt(self, doubted: bool) -> None:
        """See `IPartitionHolder`."""
        if doubted:
            self.trouble(_DOUBT)
        self._doubted = doubted
        for held in tuple(self.held.values()):
            if doubted:
                held.hold(_DOUBTED)
            else:
                held.unhold(_DOUBTED)

    def trouble(self, text: str) -> None:
        """See `IPartitionHolder`."""
        self._emit(GroupTrouble(text))

    # -- the user ----------------------------------------------------------------------

    def pause(self, partitions: Partitions) -> None:
        """Hand over nothing of these until `resume`, also when they come anew."""
        self._paused.update(partitions)
        for partition in partitions:
            if partition in self.held:
                self.held[partition].hold("paused")

    def resume(self, partitions: Partitions) -> None:
        """The opposite."""
        self._paused.difference_update(partitions)
        for partition in partitions:
            if partition in self.held:
                self.held[partition].unhold("paused")

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Those paused by the user, held or not."""
        return frozenset(self._paused)

    # -- inside ------------------------------------------------------------------------

    def _forget(self, held: HeldPartition, remember: bool = False) -> None:
        stored = self._commits.untrack(held.partition)
        del self.held[held.partition]
        done = held.progress.record
        if remember and done is not None and len(self._done) < _MOST_REMEMBERED:
            self._done[held.partition] = (done, stored)

    def _call(
        self, hook: Any, partitions: Partitions, limit_s: float | None = None
    ) -> Deferred[Any]:
        if hook is None or not partitions:
            return succeed(None)
        name = getattr(hook, "__name__", repr(hook))
        calling = maybeDeferred(hook, partitions)
        return at_most(
            self._context.clock, limit_s or self._limit_s, calling, f"hook {name}"
        )
