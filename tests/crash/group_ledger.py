"""A group's part of the tree after a kill, against what was asked and answered.

The part must look exactly as if the first so many requests of its session had been
done, each of them whole, and no other; so many are at least those that were answered.
This holds for data, versions and counts, hence for sequence numbers; and a zxid that
an answer told is the one that is read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from attrs import define

from .group_model import Found, GroupModel
from .ledger import Breach
from .offsets import Notes

_MOST_SHOWN = 3


@define
class GroupLedger:
    """The truth about one group; `model` is as it was found after the last start."""

    model: GroupModel

    def judge(self, notes: Notes, found: Mapping[str, Found]) -> int:
        """Check all znodes of the group, of which `notes` tell what happened since.

        Answers how many requests without an answer were done; raises Breach.
        """
        before = copy.deepcopy(self.model)
        done, differing = 0, self._differing({*self.model.nodes, *found}, found)
        while done < notes.answered or (differing and done < len(notes.requests)):
            touched = _apply(self.model, notes, done)
            differing = (differing - touched) | self._differing(touched, found)
            done += 1
        if differing:
            self.model = before
            self._fail(notes, self._differences(notes, found))
        self._check_zxids(notes, found)
        self.adopt(found)
        return done - notes.answered

    def adopt(self, found: Mapping[str, Found]) -> None:
        """Take what is there for the truth; raises Breach when half of a transaction
        is."""
        self.model.nodes = {path: one.node() for path, one in found.items()}
        left, right = (
            self.model.nodes.get(f"{self.model.root}/{name}")
            for name in ("left", "right")
        )
        if left != right:
            raise Breach(f"{self.model.root}: left is {left}, right is {right}")

    def _differing(self, paths: Iterable[str], found: Mapping[str, Found]) -> set[str]:
        return {path for path in paths if not self._agrees(path, found)}

    def _agrees(self, path: str, found: Mapping[str, Found]) -> bool:
        node, there = self.model.nodes.get(path), found.get(path)
        if not path.startswith(self.model.root):
            return True
        return there is None if node is None else node.is_like(there)

    def _check_zxids(self, notes: Notes, found: Mapping[str, Found]) -> None:
        for path, node in self.model.nodes.items():
            stat = found[path].stat
            known = (node.czxid, stat.czxid), (node.mzxid, stat.mzxid)
            same = all(ours in (None, theirs) for ours, theirs in known)
            # A request that leaves no other trace may have raised the last one.
            if not same or stat.pzxid < (node.pzxid or 0):
                self._fail(notes, f"{path} is {node}, found {stat}")

    def _differences(self, notes: Notes, found: Mapping[str, Found]) -> str:
        """What is not as the answers alone would have it."""
        for number in range(notes.answered):
            _apply(self.model, notes, number)
        paths = self._differing({*self.model.nodes, *found}, found)
        shown = [
            f"{path} was {self.model.nodes.get(path)}, found {found.get(path)}"
            for path in sorted(paths)[:_MOST_SHOWN]
        ]
        return f"{len(paths)} znodes differ from the answers: {'; '.join(shown)}"

    def _fail(self, notes: Notes, text: str) -> None:
        raise Breach(
            f"{self.model.root}: {len(notes.requests)} requests sent,"
            f" {notes.answered} answered, and what is there follows from no number of"
            f" them: {text}"
        )


def _apply(model: GroupModel, notes: Notes, number: int) -> set[str]:
    """Do one request; answers the paths that it may have changed."""
    request = notes.requests[number]
    zxid = notes.zxids[number] if number < notes.answered else None
    return model.touched(model.apply(request, zxid), request)
