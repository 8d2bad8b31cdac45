"""The coordinator's crash test's own judgement: every kind of breach is seen."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from kazoo.protocol.states import ZnodeStat
from twisted.trial.unittest import SynchronousTestCase

from tests.interop.zookeeper_script.records import CREATE, SET

from .group_ledger import GroupLedger
from .group_model import Change, Found, GroupModel, ModelNode, Request
from .group_traffic import GroupTraffic
from .ledger import Breach
from .offsets import Notes

ROOT = "/meta/consumers/g0"
SENT, ANSWERED = 400, 300
PAIR = (f"{ROOT}/left", f"{ROOT}/right")


def found_of(model: GroupModel) -> dict[str, Found]:
    """What a coordinator serves that holds a model."""
    return {path: _found(model, path, node) for path, node in model.nodes.items()}


def _found(model: GroupModel, path: str, node: ModelNode) -> Found:
    children = len(model.children(path))
    zxids = node.czxid or 1, node.mzxid or 1, 0, 0
    cversion = 2 * node.creates - children
    size = len(node.data or b"")
    rest = cversion, 0, 0, size, children, node.pzxid or 1
    return Found(node.data, ZnodeStat(*zxids, node.version, *rest))


class Judgement(SynchronousTestCase):
    """A ledger after one session that sent 400 requests, 300 of them answered."""

    def setUp(self) -> None:
        """Request n has the zxid 10 + n."""
        model = GroupModel(ROOT)
        traffic = GroupTraffic(model, random.Random(3))
        requests = []
        for _ in range(SENT):
            requests.append(traffic.next())
            model.apply(requests[-1])
        self.notes = Notes(ROOT, requests, [10 + n for n in range(ANSWERED)])
        self.ledger = GroupLedger(GroupModel(ROOT))

    def after(self, count: int) -> GroupModel:
        """The group after so many requests."""
        model = GroupModel(ROOT)
        for number, request in enumerate(self.notes.requests[:count]):
            model.apply(request, 10 + number)
        return model

    def assert_breach(self, model: GroupModel, text: str) -> None:
        """The ledger refuses a coordinator that holds this."""
        with self.assertRaises(Breach) as caught:
            self.ledger.judge(self.notes, found_of(model))
        self.assertIn(text, str(caught.exception))

    def test_good_trees(self) -> None:
        """As many requests as were answered are right, and any number more."""
        for count in (ANSWERED, ANSWERED + 1, ANSWERED + 50, SENT):
            ledger = copy.deepcopy(self.ledger)
            model = self.after(count)
            surplus = ledger.judge(self.notes, found_of(model))
            self.assertLessEqual(surplus, count - ANSWERED)
            self.assertEqual(set(ledger.model.nodes), set(model.nodes))

    def test_next_round(self) -> None:
        """What was found is what must be there after the next start."""
        model = self.after(ANSWERED + 10)
        self.ledger.judge(self.notes, found_of(model))
        self.assertEqual(self.ledger.judge(Notes(ROOT), found_of(model)), 0)
        self.notes = Notes(ROOT)
        self.assert_breach(self.after(ANSWERED - 20), "0 requests sent")

    def test_lost_answers(self) -> None:
        """Less than what was answered is a breach, right if no answer is claimed."""
        model = self.after(ANSWERED - 20)
        self.assert_breach(model, "differ from the answers")
        self.ledger = GroupLedger(GroupModel(ROOT))
        self.ledger.judge(Notes(ROOT, self.notes.requests), found_of(model))

    def test_single_differences(self) -> None:
        """One lost, changed, revived or invented znode, version, count or zxid is a
        breach."""
        offset = next(
            path for path in self.after(SENT).nodes if "/offsets/test/" in path
        )
        queue = f"{ROOT}/queue"
        ways: dict[str, Callable[[dict[str, ModelNode]], Any]] = {
            "lost": lambda nodes: nodes.pop(offset),
            "data": lambda nodes: setattr(nodes[offset], "data", b"-1-0"),
            "version": lambda nodes: setattr(nodes[offset], "version", 99_999),
            "counter": lambda nodes: setattr(nodes[queue], "creates", 1),
            "invented": lambda nodes: nodes.update(
                {f"{ROOT}/owners/x": ModelNode(b"")}
            ),
            "zxid": lambda nodes: setattr(nodes[ROOT], "czxid", 9),
            "children": lambda nodes: setattr(nodes[queue], "pzxid", 1),
        }
        for change in ways.values():
            self.ledger = GroupLedger(GroupModel(ROOT))
            model = self.after(ANSWERED)
            change(model.nodes)
            self.assert_breach(model, ROOT)

    def test_out_of_order(self) -> None:
        """A request without the one before it is a breach."""
        offset = f"{ROOT}/offsets/test/0-0"
        sent = Request((Change(CREATE, f"{ROOT}/other"),))
        later = Request((Change(SET, offset, b"1-9"),))
        self.notes.requests[:] = [*self.notes.requests[:ANSWERED], sent, later]
        model = self.after(ANSWERED)
        model.nodes.setdefault(offset, ModelNode(b"1-1"))
        model.apply(later)
        self.assert_breach(model, "follows from no number")

    def test_half_a_transaction(self) -> None:
        """One half of a pair is a breach, whatever else may have been lost."""
        count = next(
            count for count in range(ANSWERED, 0, -1)
            if PAIR[0] in self.after(count).nodes
        )  # fmt: skip
        model = self.after(count)
        self.ledger.adopt(found_of(model))
        model.nodes[PAIR[1]].version += 1
        with self.assertRaises(Breach):
            self.ledger.adopt(found_of(model))
