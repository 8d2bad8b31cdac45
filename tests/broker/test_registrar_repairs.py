"""What the registrar repairs, when, and what it leaves to another broker."""

from __future__ import annotations

from registrar_case import BOTH, INTERVAL_S, OTHER_URL, SESSION_S, RegistrarCase

from metatwist.broker.reconciling import IN_PARALLEL
from metatwist.broker.registrar import CONTEST_SESSIONS
from metatwist.coordination.errors import ConnectionLost
from metatwist.errors import DuplicateBroker
from tests.support.broker_parts import ADDRESS

CONTEST_S = CONTEST_SESSIONS * SESSION_S


class PassTests(RegistrarCase):
    """Passes do not overlap, and what comes together is one."""

    def setUp(self) -> None:
        """Registered."""
        super().setUp()
        self.register()

    def test_one_turn(self) -> None:
        """Many changes within a turn are one pass."""
        self.delete("topics/t/5-m")
        for _ in range(10):
            self.registrar._passes.request(full=True)
        self.turn()
        self.assertEqual(len(self.coordinator.transactions), 1)

    def test_no_overlap(self) -> None:
        """A change that comes during a pass is dealt with by the next one."""
        self.coordinator.holds = True
        self.apply("[topic=t]\n[topic=a]\n")
        count = len(self.coordinator.transactions)
        self.apply("[topic=t]\n[topic=a]\n[topic=b]\n")
        self.assertEqual(len(self.coordinator.transactions), count)
        self.coordinator.let_go()
        self.turn()
        self.assertEqual(self.trees("a"), (b"3", BOTH, BOTH))
        self.assertEqual(self.trees("b"), (b"3", BOTH, BOTH))

    def test_connection_lost(self) -> None:
        """A write whose answer is lost is looked at again soon, and is no repair."""
        self.coordinator.fails = [ConnectionLost()]
        self.apply("[topic=t]\n[topic=a]\n")
        self.assertIn("registration failed", self.registrar.view().problem or "")
        self.wait(1)
        self.assertEqual(self.trees("a"), (b"3", BOTH, BOTH))
        self.assertEqual(self.repairs(), {})
        self.assertIsNone(self.registrar.view().problem)

    def test_refused(self) -> None:
        """What is refused for good is shown, and tried again each period; the others
        are not kept from being registered."""
        self.coordinator.refuses = "/a/"
        self.apply("[topic=t]\n[topic=a]\n[topic=b]\n")
        self.assertEqual(self.trees("b"), (b"3", BOTH, BOTH))
        self.assertIn("not authorized", self.registrar.view().problem or "")
        self.coordinator.refuses = ""
        self.wait(INTERVAL_S - 1)
        self.assertEqual(self.trees("a"), (None, None, None))
        self.wait(1)
        self.assertEqual(self.trees("a"), (b"3", BOTH, BOTH))
        self.assertIsNone(self.registrar.view().problem)

    def test_refused_of_many(self) -> None:
        """Nor are those that come in later turns, however many there are."""
        self.coordinator.refuses = "/a/"
        names = [f"t{number:03}" for number in range(2 * IN_PARALLEL)]
        self.apply("".join(f"[topic={name}]\n" for name in ["a", *names]))
        self.assertEqual(self.trees(names[-1]), (b"3", BOTH, BOTH))
        self.assertIn("not authorized", self.registrar.view().problem or "")

    def test_stopped(self) -> None:
        """A registrar that was stopped does nothing more."""
        self.successResultOf(self.registrar.withdraw())
        self.coordinator.transactions.clear()
        self.apply("[topic=t]\n[topic=a]\n")
        self.wait(INTERVAL_S)
        self.connect()
        self.turn()
        self.assertEqual(self.coordinator.transactions, [])
        self.assertEqual(self.clock.getDelayedCalls(), [])


class RepairTests(RegistrarCase):
    """What others do to our nodes is undone within a period, counted and shown."""

    def setUp(self) -> None:
        """Registered."""
        super().setUp()
        self.register()

    def test_missing(self) -> None:
        """A node that is gone is made again."""
        for path in (
            "topics/t/5-m",
            "topics-pub/t/5-m",
            "ids/5/master_config_checksum",
            "ids/5/master",
        ):
            self.delete(path)
        self.wait(INTERVAL_S)
        self.assert_registered()
        self.assertEqual(self.repairs(), {"missing": 4})

    def test_wrong_data(self) -> None:
        """Wrong data is made right."""
        for path in ("topics-sub/t/5-m", "ids/5", "ids/5/master_config_checksum"):
            self.overwrite(path, b"nonsense")
        self.wait(INTERVAL_S)
        self.assert_registered()
        self.assertEqual(self.repairs(), {"wrong data": 3})

    def test_own_master_overwritten(self) -> None:
        """Somebody else's address in a node of our session is just wrong data."""
        self.overwrite("ids/5/master", OTHER_URL)
        self.wait(INTERVAL_S)
        self.assert_registered()
        self.assertEqual(self.repairs(), {"wrong data": 1})

    def test_wrong_owner(self) -> None:
        """A topic node of another session under our name is taken over."""
        self.delete("topics-pub/t/5-m")
        self.create("topics-pub/t/5-m", BOTH)
        self.wait(INTERVAL_S)
        self.assert_registered()
        self.assertEqual(self.repairs(), {"wrong owner": 1})

    def test_unwanted(self) -> None:
        """A node in a tree in which the topic shall not be is removed."""
        self.apply("[topic=t]\nacceptPublish=false\n")
        self.create("topics-pub/t/5-m", BOTH)
        self.wait(INTERVAL_S)
        self.assertEqual(self.trees(), (b"3", None, BOTH))
        self.assertEqual(self.repairs(), {"unwanted": 1})

    def test_emptied_tree(self) -> None:
        """After somebody removed whole directories they are made again."""
        for path in ("topics/t/5-m", "topics/t", "topics"):
            self.delete(path)
        self.wait(INTERVAL_S)
        self.assert_registered()

    def test_nothing_to_do(self) -> None:
        """A period in which nothing happened writes nothing."""
        self.wait(INTERVAL_S)
        self.assertEqual(self.coordinator.transactions, [])
        self.assertGreaterEqual(len(self.coordinator.reads), 6)
        self.assertEqual(self.repairs(), {})

    def test_before_the_period(self) -> None:
        """A period is as long as reconcileInterval says."""
        self.delete("topics/t/5-m")
        self.wait(INTERVAL_S - 1)
        self.assertIsNone(self.data("topics/t/5-m"))
        self.wait(1)
        self.assertEqual(self.data("topics/t/5-m"), b"3")


class ForeignTests(RegistrarCase):
    """Another broker with our id."""

    def set_up_other(self, url: bytes = OTHER_URL) -> None:
        """It registers, with a topic."""
        self.create("ids/5/master", url)
        self.create("topics/t/5-m", b"1")

    def assert_others(self) -> None:
        """Its nodes are as it made them."""
        self.assertEqual(self.data("ids/5/master"), OTHER_URL)
        self.assertEqual(self.data("topics/t/5-m"), b"1")

    def test_gone_soon(self) -> None:
        """A broker whose session ends is replaced as soon as it is gone."""
        self.set_up_other()
        self.register()
        self.assert_others()
        self.assertIn("taken by meta://other.test", self.registrar.view().problem or "")
        self.stranger.open(self.realm)
        self.turn()
        self.assert_registered()
        self.assertIsNone(self.registrar.view().problem)
        self.wait(2 * SESSION_S)
        self.assertEqual(self.given_up, [])

    def test_stays(self) -> None:
        """One that stays when a dead one would have gone ends our start, with both
        addresses."""
        self.set_up_other()
        self.register()
        self.wait(CONTEST_S - 1)
        self.assertEqual(self.given_up, [])
        self.wait(1)
        (failure,) = self.given_up
        failure.trap(DuplicateBroker)
        for words in ("broker id 5", OTHER_URL.decode(), ADDRESS, "ids/5/master"):
            self.assertIn(words, failure.getErrorMessage())
        self.assert_others()
        self.wait(2 * SESSION_S)
        self.assertEqual(len(self.given_up), 1)
        self.assertFalse(self.successResultOf(self.registrar.withdraw()))
        self.assert_others()

    def test_other_session_meanwhile(self) -> None:
        """A new session of ours waits anew: the other one may have lost its as well."""
        self.set_up_other()
        self.register()
        self.wait(CONTEST_S - 1)
        self.connect()
        self.turn()
        self.wait(CONTEST_S - 1)
        self.assertEqual(self.given_up, [])
        self.wait(1)
        self.assertEqual(len(self.given_up), 1)

    def test_after_registration(self) -> None:
        """Once registered we go on, say so, and register when the other one is gone."""
        self.register()
        self.coordinator.open(self.realm)
        self.set_up_other()
        self.turn()
        self.wait(3 * SESSION_S)
        self.assertEqual(self.given_up, [])
        self.assert_others()
        view = self.registrar.view()
        self.assertEqual(view.duplicate, OTHER_URL.decode())
        self.assertIn(ADDRESS, view.problem or "")
        self.stranger.open(self.realm)
        self.wait(INTERVAL_S)
        self.assert_registered()
        self.assertIsNone(self.registrar.view().duplicate)

    def test_after_a_part(self) -> None:
        """It is enough to have been the master, whatever became of the topics."""
        self.coordinator.refuses = "/t/"
        self.register()
        self.coordinator.open(self.realm)
        self.set_up_other()
        self.turn()
        self.wait(3 * SESSION_S)
        self.assertEqual(self.given_up, [])

    def test_not_withdrawn(self) -> None:
        """Who is not the master withdraws nothing of who is."""
        self.register()
        self.coordinator.open(self.realm)
        self.set_up_other()
        self.turn()
        self.assertFalse(self.successResultOf(self.registrar.withdraw()))
        self.assert_others()

    def test_same_address_once(self) -> None:
        """Another session at our address is taken for an accident once; one that comes
        again lives, and there is no fight without end."""
        self.register()
        for _ in range(2):
            self.delete("ids/5/master")
            self.create("ids/5/master", ADDRESS.encode())
            self.wait(INTERVAL_S)
        self.assertEqual(self.registrar.view().duplicate, ADDRESS)
        self.wait(5 * INTERVAL_S)
        owner = self.stat("ids/5/master").ephemeral_owner
        self.assertEqual(owner, self.stranger.session_id)
