"""The registrar against a znode tree in memory: what it registers, and its end."""

from __future__ import annotations

from registrar_case import BOTH, INTERVAL_S, OTHER_URL, SYSTEM, RegistrarCase

from metatwist.broker.reconciling import IN_PARALLEL
from metatwist.coordination.interface import Create, Delete
from tests.support.broker_parts import ADDRESS, BrokerParts, put


class FirstTests(RegistrarCase):
    """The first registration."""

    def test_all(self) -> None:
        """On an empty tree everything is made, and that counts as no repair."""
        self.register()
        self.assert_registered()
        self.assertEqual(self.repairs(), {})

    def test_order(self) -> None:
        """The broker comes before its topics; a topic is one transaction."""
        self.connect()
        self.registrar.startService()
        self.turn()
        done = [
            [operation.path.split("/")[3] for operation in operations]
            for operations in self.coordinator.transactions
        ]
        # What failed for want of a parent was tried again.
        self.assertEqual(
            list(dict.fromkeys(map(tuple, done))),
            [("ids",), ("topics", "topics-pub", "topics-sub")],
        )
        order = ("ids/5/master", "topics/t/5-m", "topics-pub/t/5-m")
        zxids = [self.stat(path).czxid for path in order]
        self.assertEqual(zxids, sorted(zxids))

    def test_parents(self) -> None:
        """Nodes in between are persistent and empty."""
        self.register()
        for path in ("ids", "topics", "topics-pub/t", "topics-sub/t"):
            self.assertEqual(self.data(path), b"")
            self.assertEqual(self.stat(path).ephemeral_owner, 0)

    def test_late_connection(self) -> None:
        """Without a connection nothing is written, and all of it once there is one."""
        self.registrar.startService()
        self.wait(3 * INTERVAL_S)
        problem = self.registrar.view().problem or ""
        self.assertIn("is connecting: nothing can be registered", problem)
        self.connect()
        self.turn()
        self.assert_registered()
        self.assertIsNone(self.registrar.view().problem)

    def test_new_session(self) -> None:
        """In a new session all is made again, which is no repair."""
        self.register()
        self.connect()
        self.turn()
        self.assert_registered()
        self.assertEqual(self.repairs(), {})

    def test_own_stale_nodes(self) -> None:
        """What an earlier life left is taken over at once, without a wait."""
        self.create("ids/5/master", ADDRESS.encode())
        for tree in ("topics", "topics-pub", "topics-sub"):
            self.create(f"{tree}/t/5-m", b"1")
        self.create("ids/5/master_config_checksum", b"1")
        self.register()
        self.assert_registered()
        self.assertEqual(self.repairs(), {})

    def test_persistent_master(self) -> None:
        """A master's node without a session is nobody, whatever it says."""
        self.create("ids/5/master", OTHER_URL, ephemeral=False)
        self.register()
        self.assert_registered()

    def test_old_address(self) -> None:
        """The address of an earlier life is replaced."""
        self.create("ids/5", b"meta://gone:1", ephemeral=False)
        self.register()
        self.assertEqual(self.data("ids/5"), ADDRESS.encode())

    def test_stray_names(self) -> None:
        """Names under `ids` that are no broker's id are passed over."""
        for name in ("9" * 5000, "\u0663", "03", "x", "99999999999"):
            self.create(f"ids/{name}/master", OTHER_URL)
        self.create("ids/3/master", b"meta://three:1")
        self.register()
        self.assert_registered()
        view = self.registrar.view()
        self.assertEqual(view.other_brokers, {"3": "meta://three:1"})
        self.assertIsNotNone(view.last_pass_age_s)

    def test_many_topics(self) -> None:
        """More topics than go at once are all registered, and others have a turn."""
        count = 3 * IN_PARALLEL
        self.apply("".join(f"[topic=t{number}]\n" for number in range(count)))
        self.connect()
        self.registrar.startService()
        meanwhile: list[bytes | None] = []
        for topic in (f"t{count - 1}", "t0"):
            self.clock.callLater(
                0, lambda name=topic: meanwhile.append(*self.trees(name)[:1])
            )
        self.turn()
        self.assertEqual(sorted(meanwhile, key=str), [None, b"3"])
        self.assertEqual(self.trees(f"t{count - 1}"), (b"3", BOTH, BOTH))

    def test_disabled(self) -> None:
        """zk.zkEnable=false writes nothing, and withdraws nothing."""
        self.parts = BrokerParts(
            self, f"{SYSTEM}[zookeeper]\nzk.zkEnable=false\n[topic=t]\n"
        )
        self.clock = self.parts.clock
        self.registrar = self.make_registrar(self.coordinator)
        self.register()
        self.wait(INTERVAL_S)
        self.assertIsNone(self.data("ids"))
        view = self.registrar.view()
        self.assertEqual((view.enabled, view.problem), (False, None))
        self.assertFalse(self.successResultOf(self.registrar.withdraw()))


class ChangeTests(RegistrarCase):
    """What changes while it runs shows at once."""

    topics = "[topic=t]\n[topic=wild*]\n"

    def setUp(self) -> None:
        """Registered."""
        super().setUp()
        self.register()

    def test_new_topic(self) -> None:
        """The first message to a topic of a wildcard section registers it."""
        self.parts.connect().ask(put(b"a", topic="wild-1"))
        self.turn()
        self.assertEqual(self.trees("wild-1"), (b"3", BOTH, BOTH))
        self.assertEqual(self.trees("wild*"), (b"3", BOTH, BOTH))

    def test_nothing_is_read_in_vain(self) -> None:
        """A change reads and writes the topic that it is about, and no other."""
        self.parts.connect().ask(put(b"a", topic="wild-1"))
        self.turn()
        for path in self.coordinator.reads:
            self.assertIn("/wild-1/", path)

    def test_added_by_reload(self) -> None:
        """A new section is a new topic."""
        self.apply(f"{self.topics}[topic=new]\nnumPartitions=1\n")
        self.assertEqual(self.trees("new")[0], b"1")

    def test_partition_count(self) -> None:
        """Another number of partitions makes the nodes anew, in one transaction:
        clients watch for children, not for data (spec layout 9.1, 7)."""
        before = self.stat("topics-pub/t/5-m").czxid
        self.apply("[topic=t]\nnumPartitions=8\n[topic=wild*]\n")
        self.assertEqual(self.trees()[0], b"8")
        self.assertGreater(self.stat("topics-pub/t/5-m").czxid, before)
        (operations,) = [
            one for one in self.coordinator.transactions if "/t/" in one[0].path
        ]
        self.assertEqual(
            [type(operation) for operation in operations], [Delete, Create] * 3
        )
        self.assertEqual(self.repairs(), {})

    def test_direction_off(self) -> None:
        """A direction that is switched off leaves its tree, and comes back."""
        self.apply("[topic=t]\nacceptPublish=false\n")
        self.assertEqual(self.trees(), (b"3", None, BOTH))
        self.apply("[topic=t]\nacceptSubscribe=false\n")
        self.assertEqual(self.trees(), (b"3", BOTH, None))
        self.apply("[topic=t]\n")
        self.assertEqual(self.trees(), (b"3", BOTH, BOTH))
        self.assertEqual(self.repairs(), {})

    def test_removed(self) -> None:
        """A topic that is neither configured nor stored any more goes."""
        self.apply("[topic=t]\n")
        self.assertEqual(self.trees("wild*"), (None, None, None))
        self.assertEqual(self.repairs(), {})

    def test_removed_is_forgotten(self) -> None:
        """Topics that come and go leave nothing in memory."""
        beliefs = self.registrar._nodes.beliefs._nodes
        before = len(beliefs)
        self.apply(f"{self.topics}[topic=new]\n")
        self.assertEqual(len(beliefs), before + 3)
        self.apply(self.topics)
        self.assertEqual(len(beliefs), before)

    def test_removed_with_data(self) -> None:
        """A topic that lost its section can be read, and not be written."""
        self.parts.connect().ask(put(b"a", topic="t"))
        self.apply("[topic=wild*]\n")
        one = b'{"numParts":1,"broker":"5-m"}'
        self.assertEqual(self.trees(), (None, None, one))

    def test_failed_partition(self) -> None:
        """A partition that stops takes its topic from the producers."""
        self.parts.connect().send(put(b"a", topic="t"))
        self.parts.turn()
        self.parts.sync(OSError(5, "Input/output error"))
        self.turn()
        self.assertEqual(self.trees(), (None, None, BOTH))

    def test_closed_partition(self) -> None:
        """A partition that an operator closed changes nothing."""
        self.parts.topics.closed.add(("t", 0))
        self.parts.topics.changed()
        self.turn()
        self.assertEqual(self.coordinator.transactions, [])

    def test_checksum(self) -> None:
        """The checksum follows the configuration, in the same node."""
        before = self.stat("ids/5/master_config_checksum").czxid
        self.apply(f"{self.topics}[topic=new]\n")
        self.assertEqual(
            self.data("ids/5/master_config_checksum"),
            str(self.parts.topics.settings.config_checksum).encode(),
        )
        self.assertEqual(self.stat("ids/5/master_config_checksum").czxid, before)

    def test_unfit_name(self) -> None:
        """A name that cannot be a znode is a warning, and the others are fine."""
        self.apply("[topic=t]\n[topic=a/*]\n")
        self.assertEqual(self.trees(), (b"3", BOTH, BOTH))
        (warning,) = self.registrar.view().warnings
        self.assertIn("'a/*' is not registered", warning)


class WithdrawTests(RegistrarCase):
    """The orderly end (spec layout 4.5)."""

    def test_all(self) -> None:
        """Everything of ours is gone, intermediate nodes stay."""
        self.register()
        self.assertTrue(self.successResultOf(self.registrar.withdraw()))
        self.assertEqual(self.trees(), (None, None, None))
        self.assertIsNone(self.data("ids/5"))
        self.assertEqual(self.data("topics-sub/t"), b"")
        self.assertEqual(self.registrar.view().registered_nodes, 0)

    def test_order(self) -> None:
        """Topics go before the master."""
        self.register()
        self.registrar.withdraw()
        paths = [one[0].path for one in self.coordinator.transactions]
        self.assertEqual(len(paths), 2)
        self.assertIn("/topics/t/", paths[0])
        self.assertEqual(paths[1], self.names.master)

    def test_slave(self) -> None:
        """While a slave is registered the broker's node stays, and says nothing."""
        self.register()
        self.create("ids/5/slave0", b"meta://slave:1")
        self.assertTrue(self.successResultOf(self.registrar.withdraw()))
        self.assertEqual(self.data("ids/5"), b"")
        self.assertIsNone(self.data("ids/5/master"))

    def test_some_are_missing(self) -> None:
        """What somebody has deleted already is no obstacle."""
        self.register()
        for path in ("topics-pub/t/5-m", "ids/5/master_config_checksum"):
            self.delete(path)
        self.assertTrue(self.successResultOf(self.registrar.withdraw()))
        self.assertIsNone(self.data("ids/5"))
        self.assertEqual(self.trees(), (None, None, None))

    def test_without_connection(self) -> None:
        """Without a connection it ends at once."""
        self.register()
        self.coordinator.suspend()
        self.assertFalse(self.successResultOf(self.registrar.withdraw()))

    def test_no_answer(self) -> None:
        """Without an answer it ends after a few seconds; some of it may have been
        withdrawn, so clients are given time to notice."""
        self.register()
        self.coordinator.holds = True
        leaving = self.registrar.withdraw()
        self.wait(4)
        self.assertNoResult(leaving)
        self.wait(1)
        self.assertTrue(self.successResultOf(leaving))

    def test_never_registered(self) -> None:
        """Without a registration there is nothing to do."""
        self.registrar.startService()
        self.assertFalse(self.successResultOf(self.registrar.withdraw()))

    def test_a_part(self) -> None:
        """What could be registered of all is withdrawn."""
        self.apply("[topic=t]\n[topic=a]\n")
        self.coordinator.refuses = "/a/"
        self.register()
        self.assertTrue(self.successResultOf(self.registrar.withdraw()))
        self.assertIsNone(self.data("ids/5"))
        self.assertEqual(self.trees(), (None, None, None))

    def test_during_the_first_pass(self) -> None:
        """So is what the first registration has made when it is broken off."""
        self.connect()
        self.coordinator.holds = True
        self.registrar.startService()
        self.turn()
        leaving = self.registrar.withdraw()
        self.coordinator.let_go()
        self.turn()
        self.assertTrue(self.successResultOf(leaving))
        self.assertIsNone(self.data("ids/5"))
        self.assertEqual(self.trees(), (None, None, None))

    def test_during_a_pass(self) -> None:
        """It waits for the pass that is under way, and undoes it."""
        self.register()
        self.coordinator.holds = True
        self.apply("[topic=t]\n[topic=a]\n")
        leaving = self.registrar.withdraw()
        self.assertNoResult(leaving)
        self.coordinator.let_go()
        self.turn()
        self.assertTrue(self.successResultOf(leaving))
        self.assertEqual(self.trees("a"), (None, None, None))
        self.assertEqual(self.trees(), (None, None, None))
