"""What a reload changes and what waits for a restart (spec configuration 6)."""

from __future__ import annotations

from pathlib import Path

from settings_samples import MINIMAL, load
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.settings import Reload, compare


def reload(before: str, after: str) -> Reload:
    """Compare the minimal file with `before` and with `after` at its end.

    Both begin in the section of topic `test`.
    """
    return compare(load(MINIMAL + before), load(MINIMAL + after))


class NewRootTests(SynchronousTestCase):
    """Data roots that a reload brings."""

    def test_unknown_root(self) -> None:
        """A new topic's root that the broker has not locked and read waits for a
        restart; its messages go where those of others go."""
        found = reload(
            "[system]\ndataPath=/a\n",
            "[system]\ndataPath=/a\n[topic=new]\ndataPath=/b\n",
        )
        self.assertEqual(found.changed, ("topic new: added",))
        self.assertEqual(
            found.needs_restart, ("topic new: dataPath /a -> /b, waits for a restart",)
        )
        self.assertEqual(found.settings.topics["new"].data_path, Path("/a"))

    def test_known_root(self) -> None:
        """A root that is in use already holds at once."""
        before = "[topic=old]\ndataPath=/b\n"
        found = reload(before, f"{before}[topic=new]\ndataPath=/b\n")
        self.assertEqual(found.needs_restart, ())
        self.assertEqual(found.settings.topics["new"].data_path, Path("/b"))


class BrokerTests(SynchronousTestCase):
    """Keys of [system], [metatwist] and [zookeeper]."""

    def test_nothing(self) -> None:
        """The same file again changes nothing but is taken over as the text."""
        found = reload("", "; a comment\n")
        self.assertEqual((found.changed, found.needs_restart), ((), ()))
        self.assertIn(b"a comment", found.settings.text)
        self.assertEqual(
            found.settings.config_checksum,
            load(MINIMAL + "; a comment\n").config_checksum,
        )

    def test_hot_keys(self) -> None:
        """Reloadable keys of all sections hold at once."""
        found = reload(
            "",
            "[system]\nupdateConsumerOffsets=true\n[metatwist]\nidleTimeout=5\n"
            "maxMessageBytes=1000\nretentionBytes=77\n",
        )
        self.assertEqual(
            found.changed,
            (
                "[system] updateConsumerOffsets false -> true",
                "[metatwist] idleTimeout 300 -> 5",
                "[metatwist] maxMessageBytes 16777216 -> 1000",
                "[metatwist] retentionBytes 0 -> 77",
            ),
        )
        self.assertEqual(found.needs_restart, ())
        settings = found.settings
        self.assertTrue(settings.update_consumer_offsets)
        self.assertEqual(
            (settings.idle_timeout_s, settings.max_message_bytes), (5, 1000)
        )
        self.assertEqual(settings.retention_bytes, 77)
        self.assertEqual(settings.topics["test"].retention_bytes, 77)
        self.assertIn("updateConsumerOffsets", settings.warnings[0])

    def test_cold_keys(self) -> None:
        """Identity, ports, paths and sizes stay as they are until a restart."""
        found = reload(
            "[system]\nhostName=a\ndataPath=/a\n",
            "[system]\nbrokerId=3\nhostName=b\nserverPort=9000\ndataPath=/b\n"
            "maxSegmentSize=4096\n[metatwist]\nsyncThreads=2\n[topic=new]\n",
        )
        self.assertEqual(found.changed, ("topic new: added",))
        self.assertEqual(
            found.needs_restart,
            tuple(
                f"{change}, waits for a restart"
                for change in (
                    "[system] brokerId 0 -> 3",
                    "[system] hostName a -> b",
                    "[system] serverPort 8123 -> 9000",
                    "[system] dataLogPath /a -> /b",
                    "[system] maxSegmentSize 1073741824 -> 4096",
                    "[metatwist] brokerEndpoint tcp:8123 -> tcp:9000",
                    "[metatwist] syncThreads 4 -> 2",
                    "[metatwist] coordinatorPath /a.coordinator -> /b.coordinator",
                    "[system] dataPath /a -> /b",
                )
            ),
        )
        settings = found.settings
        self.assertEqual((settings.broker_id, settings.host_name), (0, "a"))
        self.assertEqual(settings.broker_endpoint, "tcp:8123")
        self.assertEqual(settings.data_path, Path("/a"))
        self.assertEqual(settings.defaults.data_path, Path("/a"))
        self.assertEqual(settings.topics["new"].data_path, Path("/a"))

    def test_zookeeper(self) -> None:
        """Nothing of the ensemble changes while the broker runs."""
        found = reload("", "[zookeeper]\nzk.zkRoot=/x\n")
        self.assertEqual(
            found.needs_restart,
            ("[zookeeper] zk.zkRoot /meta -> /x, waits for a restart",),
        )
        assert found.settings.zookeeper is not None
        self.assertEqual(found.settings.zookeeper.root, "/meta")

    def test_zookeeper_gone(self) -> None:
        """Leaving the ensemble waits for a restart, as does what comes in its place."""
        found = compare(
            load(MINIMAL),
            load(MINIMAL.replace("zk.zkConnect=localhost:2181\n", "")),
        )
        self.assertEqual(
            found.needs_restart,
            (
                "[metatwist] coordinator ensemble -> embedded, waits for a restart",
                "[zookeeper] removed, waits for a restart",
            ),
        )
        self.assertIsNotNone(found.settings.zookeeper)
        self.assertEqual(found.settings.coordinator, "ensemble")

    def test_reconcile_interval(self) -> None:
        """The tree of a running broker can be looked at more often."""
        found = reload("", "[metatwist]\nreconcileInterval=3\n")
        self.assertEqual(found.changed, ("[metatwist] reconcileInterval 10 -> 3",))
        self.assertEqual(found.settings.reconcile_interval_s, 3)


class TopicTests(SynchronousTestCase):
    """Topic sections."""

    def test_hot_values(self) -> None:
        """All but the write mode and the directory of a topic change at once."""
        found = reload(
            "",
            "numPartitions=4\nunflushInterval=5\ndeletePolicy=archive,1,true\n"
            "deleteWhen=0 0 1 * * ?\nstat=true\ngroup.g=a.B\n"
            "[metatwist]\nretentionBytes.test=9\n",
        )
        self.assertEqual(
            found.changed,
            (
                "topic test: numPartitions 1 -> 4",
                "topic test: unflushInterval 10000 -> 5",
                "topic test: deletePolicy delete,168h -> archive,1h,true",
                "topic test: deleteWhen 0 0 6,18 * * ? -> 0 0 1 * * ?",
                "topic test: stat false -> true",
                "topic test: retentionBytes 0 -> 9",
                "topic test: group.g none -> a.B",
            ),
        )
        topic = found.settings.topics["test"]
        self.assertEqual((topic.num_partitions, topic.filters), (4, {"g": "a.B"}))
        self.assertEqual(topic.retention_bytes, 9)

    def test_fewer_partitions(self) -> None:
        """Taking partitions away is told with what happens to them."""
        (change,) = reload("numPartitions=4\n", "numPartitions=2\n").changed
        self.assertEqual(
            change,
            "topic test: numPartitions 4 -> 2 (from 2 to 3 they take no more messages, "
            "those they have stay readable)",
        )

    def test_threshold_within_a_mode(self) -> None:
        """A threshold changes at once while its sign stays."""
        found = reload("unflushThreshold=10\n", "unflushThreshold=20\n")
        self.assertEqual(found.changed, ("topic test: unflushThreshold 10 -> 20",))
        self.assertEqual(found.settings.topics["test"].unflush_threshold, 20)

    def test_threshold_across_modes(self) -> None:
        """Between group commit and direct writing an existing topic stays as it is."""
        for before, after in ((0, 1000), (1000, 0)):
            found = reload(
                f"unflushThreshold={before}\n", f"unflushThreshold={after}\n"
            )
            self.assertEqual(found.changed, ())
            self.assertEqual(
                found.needs_restart,
                (
                    f"topic test: unflushThreshold {before} -> {after}, "
                    "waits for a restart",
                ),
            )
            self.assertEqual(found.settings.topics["test"].unflush_threshold, before)

    def test_inherited_mode(self) -> None:
        """A changed mode of [system] holds for new topics and not for old ones."""
        found = reload("", "[topic=new]\n[system]\nunflushThreshold=5\n")
        self.assertEqual(
            found.changed, ("[system] unflushThreshold 0 -> 5", "topic new: added")
        )
        self.assertEqual(len(found.needs_restart), 1)
        self.assertEqual(found.settings.topics["test"].unflush_threshold, 0)
        self.assertEqual(found.settings.topics["new"].unflush_threshold, 5)

    def test_inherited_change_is_told_once(self) -> None:
        """A value that all topics inherit is one difference and holds for all."""
        found = reload("", "[system]\ndeleteWhen=0 0 1 * * ?\n")
        self.assertEqual(len(found.changed), 1)
        self.assertEqual(found.settings.topics["test"].delete_when, "0 0 1 * * ?")

    def test_directory(self) -> None:
        """A topic's directory stays until a restart."""
        found = reload("dataPath=/a\n", "dataPath=/b\n")
        self.assertEqual(
            found.needs_restart,
            ("topic test: dataPath /a -> /b, waits for a restart",),
        )
        self.assertEqual(found.settings.topics["test"].data_path, Path("/a"))

    def test_removed(self) -> None:
        """A removed topic is refused from now on, and the report says so."""
        found = reload("[topic=news]\n", "")
        self.assertEqual(
            found.changed,
            (
                "topic news: removed; it takes no more messages, those it has stay "
                "readable",
            ),
        )
        self.assertIsNone(found.settings.for_topic("news"))

    def test_removed_under_a_pattern(self) -> None:
        """A removed section can leave its topic to a pattern, which the report says."""
        found = reload(
            "[topic=news]\n[topic=n*]\nunflushThreshold=5\n",
            "[topic=n*]\nunflushThreshold=5\n",
        )
        self.assertEqual(
            found.changed, ("topic news: removed; a wildcard section holds for it",)
        )
        self.assertEqual(
            found.needs_restart,
            ("topic news: unflushThreshold 0 -> 5, waits for a restart",),
        )

    def test_added_under_a_pattern(self) -> None:
        """A new section of a topic that a pattern let in keeps the mode it had."""
        found = reload(
            "[topic=n*]\nunflushThreshold=5\n",
            "[topic=n*]\nunflushThreshold=5\n[topic=news]\nnumPartitions=3\n",
        )
        self.assertEqual(
            found.changed, ("topic news: added", "topic news: numPartitions 1 -> 3")
        )
        self.assertEqual(found.settings.topics["news"].unflush_threshold, 5)

    def test_new_pattern_holds(self) -> None:
        """A wildcard section that a reload brings accepts its topics at once."""
        found = reload("", "[topic=n*]\nnumPartitions=3\n")
        topic = found.settings.for_topic("news")
        assert topic is not None
        self.assertEqual(topic.num_partitions, 3)
