"""The znode tree against a naive model, under any sequence of writes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded.store import StoredNode
from metatwist.coordination.embedded.tree import Tree
from metatwist.coordination.errors import CoordinationError, TransactionFailed
from metatwist.coordination.interface import EventKind, NodeStat
from tests.coordination.tree_model import Model, Person, Step, steps

Picture = dict[str, tuple[bytes | None, NodeStat]]


class Ear:
    """Hears all events of the paths that it watches."""

    def __init__(self) -> None:
        self.heard: list[tuple[EventKind, str]] = []

    def notify(self, kind: EventKind, path: str) -> None:
        self.heard.append((kind, path))


class Pair:
    """A tree and its model, which do the same; time is told by both alike."""

    def __init__(self, case: SynchronousTestCase) -> None:
        self.case = case
        self.model = Model()
        self.stored: dict[str, StoredNode | None] = {}
        self.people = [Person(11), Person(22)]
        self.tree = Tree(lambda: self.model.now_ms, self.stored.__setitem__)

    def picture(self) -> Picture:
        """All data and stats of the tree."""
        return {path: (one.data, one.stat) for path, one in self.tree.nodes.items()}

    def play(self, step: Step) -> None:
        """Do a step with both; both refuse it, or both answer the same."""
        self.model.now_ms += 1
        before = self.model.copy()
        self.model.zxid += 1
        expected, got = _outcome(self.model_play, step), _outcome(self._tree_play, step)
        if isinstance(expected, type) or step.verb == "check":
            before.now_ms = self.model.now_ms
            self.model = before
        self.case.assertEqual(got, expected, step)

    def model_play(self, step: Step) -> object:
        return self.model.play(step, self.people[step.person])

    def _tree_play(self, step: Step) -> object:
        return step.play(self.tree, self.people)

    def transact(self, batch: list[Step]) -> None:
        """Do all or none with both."""
        self.model.now_ms += 1
        before = self.model.copy()
        self.model.zxid += 1
        expected: list[object] = []
        for step in batch:
            expected.append(_outcome(self.model_play, step))
            if isinstance(expected[-1], type):
                before.now_ms = self.model.now_ms
                self.model = before
                self._refused(batch, len(expected) - 1, expected[-1])
                return
        calls = [lambda step=step: self._tree_play(step) for step in batch]
        self.case.assertEqual(self.tree.transaction(calls), expected)

    def _refused(self, batch: list[Step], index: int, cause: type) -> None:
        ear, picture, stored = Ear(), self.picture(), dict(self.stored)
        for path in [*self.tree.nodes, *(step.path for step in batch)]:
            self.tree.watches.watch_data(path, ear)
            self.tree.watches.watch_children(path, ear)
        calls = [lambda step=step: self._tree_play(step) for step in batch]
        error = self.case.assertRaises(TransactionFailed, self.tree.transaction, calls)
        self.tree.watches.forget(ear)
        self.case.assertEqual((error.index, type(error.cause)), (index, cause))
        self.case.assertEqual((self.picture(), self.stored), (picture, stored))
        self.case.assertEqual(ear.heard, [])

    def leave(self, person: int) -> None:
        """End somebody's session, in both."""
        self.model.zxid += 1
        for path in list(self.people[person].ephemerals):
            self.model.remove(path)
        self.tree.remove_all(self.people[person].ephemerals)

    def compare(self) -> None:
        """Both show the same, and each ephemeral is known to its owner."""
        model = {
            path: (node.data, self.model.stat(path))
            for path, node in self.model.nodes.items()
        }
        self.case.assertEqual(self.picture(), model)
        self.case.assertEqual(self.tree.zxid, self.model.zxid)
        for person in self.people:
            mine = {
                path
                for path, (_, stat) in model.items()
                if stat.ephemeral_owner == person.id
            }
            self.case.assertEqual(set(person.ephemerals), mine)


def _outcome(play: Any, step: Step) -> object:
    try:
        return play(step)
    except CoordinationError as error:
        return type(error)


class ModelTests(SynchronousTestCase):
    """Any sequence of writes, transactions and sessions' ends."""

    @given(st.lists(steps, max_size=30))
    def test_steps(self, sequence: list[Step]) -> None:
        """Each write has the outcome and the stats of the model, or its error."""
        pair = Pair(self)
        for step in sequence:
            pair.play(step)
            pair.compare()

    @given(st.lists(steps, max_size=8), st.lists(st.lists(steps, max_size=5)))
    def test_transactions(self, first: list[Step], batches: list[list[Step]]) -> None:
        """A transaction does what its steps would do, under one zxid; one that fails
        leaves the tree, its owners, what is recorded and the watches as they were."""
        pair = Pair(self)
        for step in first:
            pair.play(step)
        for batch in batches:
            pair.transact(batch)
            pair.compare()

    @given(
        st.lists(st.one_of(steps, st.lists(steps, max_size=4), st.sampled_from([0, 1])))
    )
    def test_what_is_recorded(self, acts: list[Step | list[Step] | int]) -> None:
        """What was recorded gives the same persistent znodes in another tree, with all
        counters, so that sequences go on."""
        pair = Pair(self)
        for act in acts:
            if isinstance(act, Step):
                pair.play(act)
            elif isinstance(act, list):
                pair.transact(act)
            else:
                pair.leave(act)
            pair.compare()
        kept = [node for node in pair.stored.values() if node is not None]
        again = Tree(lambda: 0, lambda *_: None, kept, pair.tree.zxid)
        pair.leave(0)
        pair.leave(1)
        # What the ends of sessions change in a parent is not in the file yet.
        for path, node in pair.tree.nodes.items():
            if path in pair.stored and path in again.nodes:
                again.nodes[path].pzxid = node.pzxid
        again_picture = {
            path: (one.data, one.stat) for path, one in again.nodes.items()
        }
        self.assertEqual(again_picture, pair.picture())
        sequence = Step("create", "/s-", flags=2)
        self.assertEqual(
            sequence.play(again, pair.people), sequence.play(pair.tree, pair.people)
        )
