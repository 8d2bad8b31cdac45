"""Two consumers of a group on one tree in memory, and a coordinator that misbehaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.errors import ClientError
from metatwist.client.message import TopicPartition
from metatwist.client.offsets.coordinator import CoordinatorOffsets
from metatwist.client.offsets.interface import Claim, Commit
from metatwist.coordination.embedded.local import LocalCoordinator
from metatwist.coordination.errors import CoordinationError
from metatwist.coordination.formats import OffsetRecord
from metatwist.coordination.layout import Layout
from tests.client.offsets.offset_contract import GROUP, place

LAYOUT = Layout()
WHERE = place("t")


class Watched:
    """A coordinator seen through: what is asked of it, and what a test does with that.

    Attributes:
        asked: names of the calls so far, without those for states.
        before: called before each call that is named in it.
        after: what the answer of each call that is named in it is replaced by.
    """

    def __init__(self, coordinator: Any) -> None:
        self.coordinator = coordinator
        self.asked: list[str] = []
        self.before: dict[str, Callable[[], object]] = {}
        self.after: dict[str, Callable[[Deferred[Any]], Deferred[Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.coordinator, name)
        if not callable(found):
            return found

        def ask(*arguments: Any, **keys: Any) -> Any:
            self.asked.append(name)
            self.before.get(name, lambda: None)()
            answer = found(*arguments, **keys)
            return self.after[name](answer) if name in self.after else answer

        return ask


def failing(error: CoordinationError) -> Callable[[Deferred[Any]], Deferred[Any]]:
    """For `after`: it is carried out, but the answer is an error."""

    def replaced(answer: Deferred[Any]) -> Deferred[Any]:
        answer.addErrback(lambda _: None)
        return fail(error)

    return replaced


class Consumer:
    """A member of the group, with a session of its own."""

    def __init__(self, coordinator: LocalCoordinator, name: str) -> None:
        self.session = coordinator
        self.name = f"{GROUP}_{name}"
        self.watched = Watched(coordinator)
        self.storage = CoordinatorOffsets(self.watched, LAYOUT, GROUP)

    @property
    def claim(self) -> Claim:
        """What it claims with in its present session."""
        return Claim(self.name, self.session.session_id)

    def commit_of(self, offset: int, where: TopicPartition = WHERE) -> Commit:
        """A commit with its present claim."""
        return Commit(where, OffsetRecord(offset), self.claim)


class TreeCase(SynchronousTestCase):
    """`first` and `second` are consumers; `admin` has a session as well."""

    def setUp(self) -> None:
        """Nobody owns anything."""
        self.clock = Clock()
        self.admin = LocalCoordinator.in_memory(self.clock)
        self.first = Consumer(self.session(), "first")
        self.second = Consumer(self.session(), "second")

    def session(self) -> LocalCoordinator:
        """Another session on the tree."""
        found = LocalCoordinator(self.clock)
        assert self.admin.realm is not None
        found.open(self.admin.realm)
        return found

    def own(self, consumer: Consumer, where: TopicPartition = WHERE) -> None:
        """Make a consumer the owner; whoever was it is it no more."""
        path = LAYOUT.owner(GROUP, *where)
        if self.successResultOf(self.admin.exists(path)) is not None:
            self.successResultOf(self.admin.delete(path))
        made = consumer.session.create(
            path, consumer.name.encode(), ephemeral=True, make_parents=True
        )
        self.successResultOf(made)

    def load(self, consumer: Consumer, where: TopicPartition = WHERE) -> Any:
        """What it loads."""
        return self.successResultOf(consumer.storage.load(where, consumer.claim))

    def commit(self, consumer: Consumer, offset: int) -> ClientError | None:
        """What a commit of it comes to."""
        return self.commit_this(consumer, consumer.commit_of(offset))

    def commit_this(self, consumer: Consumer, one: Commit) -> ClientError | None:
        """What this one comes to."""
        outcome = self.successResultOf(consumer.storage.commit((one,)))
        found: ClientError | None = outcome[one.partition]
        return found

    def write(self, data: bytes, where: TopicPartition = WHERE) -> None:
        """An admin, or Java, writes the offset node."""
        path = LAYOUT.offset(GROUP, *where)
        if self.successResultOf(self.admin.exists(path)) is None:
            self.successResultOf(self.admin.create(path, data, make_parents=True))
        else:
            self.successResultOf(self.admin.set(path, data))

    def node(self, where: TopicPartition = WHERE) -> bytes:
        """The offset node's data."""
        found = self.successResultOf(self.admin.get(LAYOUT.offset(GROUP, *where)))
        data: bytes = found[0]
        return data
