"""One znode as it is and as it should be."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.repair_plan import Beliefs, Fault, Step, Wish, step_for
from metatwist.coordination.interface import Create, Data, Delete, NodeStat, SetData

OURS, THEIRS = 7, 8


def node(data: bytes, owner: int = OURS, version: int = 4) -> Data:
    """A znode as it was read."""
    return data, NodeStat(1, 1, 0, 0, version, 0, 0, owner, len(data), 0, 1)


class StepTests(SynchronousTestCase):
    """`step_for`."""

    def step(self, wished: bytes | None, found: Data | None) -> Step | None:
        """For our session."""
        return step_for(Wish("/a", wished), found, OURS)

    def test_right(self) -> None:
        """Nothing is done about what is as it should be."""
        self.assertIsNone(self.step(b"x", node(b"x")))
        self.assertIsNone(self.step(None, None))

    def test_missing(self) -> None:
        """A node that is missing is made."""
        made = (Create("/a", b"x", ephemeral=True),)
        self.assertEqual(self.step(b"x", None), Step("/a", Fault.MISSING, made))

    def test_wrong_data(self) -> None:
        """Wrong data is replaced by a new node, which who watches children sees."""
        anew = (Delete("/a", 4), Create("/a", b"x", ephemeral=True))
        found = self.step(b"x", node(b"y"))
        self.assertEqual(found, Step("/a", Fault.WRONG_DATA, anew))

    def test_in_place(self) -> None:
        """Where the data is watched, it is replaced where it is."""
        found = step_for(Wish("/a", b"x", in_place=True), node(b"y"), OURS)
        replaced = (SetData("/a", b"x", 4),)
        self.assertEqual(found, Step("/a", Fault.WRONG_DATA, replaced))

    def test_wrong_owner(self) -> None:
        """A node of another session is made anew, if it still is the one we saw."""
        anew = (Delete("/a", 4), Create("/a", b"x", ephemeral=True))
        for wish in (Wish("/a", b"x"), Wish("/a", b"x", in_place=True)):
            found = step_for(wish, node(b"x", THEIRS), OURS)
            self.assertEqual(found, Step("/a", Fault.WRONG_OWNER, anew))

    def test_unwanted(self) -> None:
        """What shall not be is deleted, whoever made it."""
        for owner in (OURS, THEIRS):
            found = self.step(None, node(b"x", owner))
            self.assertEqual(found, Step("/a", Fault.UNWANTED, (Delete("/a", 4),)))


class BeliefTests(SynchronousTestCase):
    """`Beliefs`."""

    def surprised(self, found: Data | None, *held: bytes | None) -> bool:
        """Whether one that believes `held` is surprised by what was found."""
        beliefs = Beliefs()
        for data in held:
            beliefs.hold("/a", data)
        return beliefs.is_surprised("/a", found, OURS)

    def test_without_belief(self) -> None:
        """Who believes nothing is not surprised."""
        for found in (None, node(b"x"), node(b"x", THEIRS)):
            self.assertFalse(self.surprised(found))

    def test_as_believed(self) -> None:
        """Neither is who was right."""
        self.assertFalse(self.surprised(node(b"x"), b"x"))
        self.assertFalse(self.surprised(None, None))

    def test_otherwise(self) -> None:
        """Any difference is a surprise."""
        self.assertTrue(self.surprised(None, b"x"))
        self.assertTrue(self.surprised(node(b"y"), b"x"))
        self.assertTrue(self.surprised(node(b"x", THEIRS), b"x"))
        self.assertTrue(self.surprised(node(b"x"), None))

    def test_forgotten(self) -> None:
        """A doubt and a new session end beliefs, and counts stay."""
        beliefs = Beliefs()
        beliefs.hold("/a", b"x")
        beliefs.hold("/b", None)
        beliefs.count("missing")
        self.assertEqual((beliefs.present, "/a" in beliefs), (1, True))
        beliefs.doubt("/a")
        self.assertNotIn("/a", beliefs)
        beliefs.forget()
        self.assertFalse(beliefs.is_surprised("/b", node(b"x"), OURS))
        self.assertEqual(beliefs.repairs["missing"], 1)
