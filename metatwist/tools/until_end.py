"""When `consume --until-end` is at the end: every partition is accounted for.

Those that are ours are read as far as they went at the beginning, or have stopped.
Others are fine in the hands of the member that should have them. Until then it waits:
for what is ours and another still has, such as a member that was killed and whose
session has not ended, and for what nobody has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twisted.internet.defer import Deferred

from metatwist.client.consumer import Consumer
from metatwist.client.message import TopicPartition
from metatwist.coordination.errors import CoordinationError
from metatwist.tools.ending import ToolError
from metatwist.tools.group_sight import GroupSight, Sight
from metatwist.tools.notes import ConsumerNotes
from metatwist.tools.running import Scene

LOOK_PERIOD_S = 0.5


class UntilEnd:
    """Watches a consumer; `ends` are offsets in bytes, `sight` is None where partitions
    are not shared. Partitions without an end count as read."""

    def __init__(
        self,
        scene: Scene,
        consumer: Consumer,
        notes: ConsumerNotes,
        ends: Mapping[TopicPartition, int],
        sight: GroupSight | None,
    ) -> None:
        self._scene = scene
        self._consumer = consumer
        self._notes = notes
        self._ends = ends
        self._sight = sight
        self._waits_since_s: float | None = None
        self._next_look_s = 0.0
        self._has_complained = False

    async def is_reached(self) -> bool:
        """Whether all is accounted for. Raises ToolError when nothing was assigned
        within the user's patience, CancelledError at the stop."""
        assigned = self._consumer.assigned
        if not all(map(self._is_read, assigned)):
            self._waits_since_s = None
            return False
        missing = self._ends.keys() - set(assigned) - self._notes.stopped
        if not missing:
            return True
        now_s = self._scene.reactor.seconds()
        if self._waits_since_s is None:
            self._waits_since_s = now_s
        if now_s < self._next_look_s:
            return False
        self._next_look_s = now_s + LOOK_PERIOD_S
        sight = await self._look(missing)
        is_shared_out = sight is not None and all(map(sight.is_others, missing))
        if is_shared_out and self._notes.was_assigned:
            return True
        if now_s - self._waits_since_s >= self._scene.target.timeout_s:
            self._complain(_holders(sight, missing))
        return False

    def _is_read(self, partition: TopicPartition) -> bool:
        if partition in self._notes.stopped or partition not in self._ends:
            return True
        position = self._consumer.position(partition)
        return position is not None and position >= self._ends[partition]

    async def _look(self, missing: Iterable[TopicPartition]) -> Sight | None:
        """None when that is not possible now."""
        if self._sight is None:
            return None
        looking = Deferred.fromCoroutine(self._sight.look(missing))
        try:
            return await self._scene.stop.ends(looking)
        except CoordinationError:
            return None

    def _complain(self, holders: str) -> None:
        if not self._notes.was_assigned:
            limit_s = self._scene.target.timeout_s
            raise ToolError(
                f"no partition was assigned within {limit_s:g} s: {holders}"
            )
        if not self._has_complained:
            self._has_complained = True
            self._scene.say(f"waits for partitions: {holders}")


def _holders(sight: Sight | None, partitions: Iterable[TopicPartition]) -> str:
    """`a:0-0, a:0-1 held by g_x; a:0-2 held by nobody`."""
    by_owner: dict[str, list[str]] = {}
    for one in sorted(partitions):
        owner = "somebody unknown"
        if sight is not None:
            owner = sight.owners.get(one, "nobody")
        by_owner.setdefault(owner, []).append(str(one))
    return "; ".join(
        f"{', '.join(names)} held by {owner}" for owner, names in by_owner.items()
    )
