"""Loading whole files (spec configuration 2 to 5, 17)."""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path

from settings_samples import COMMENTED, MINIMAL, SHIPPED, SYSTEM, load, notes, problems
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.settings import RetentionPolicy, load_settings
from metatwist.errors import SettingsError


class SampleTests(SynchronousTestCase):
    """Files that exist in the field."""

    def test_minimal(self) -> None:
        """The smallest file that starts the original loads, with all defaults."""
        settings = load(MINIMAL)
        self.assertEqual(settings.warnings, ())
        self.assertEqual(settings.server_port, 8123)
        self.assertEqual(settings.dashboard_http_port, 8120)
        self.assertEqual(settings.broker_endpoint, "tcp:8123")
        self.assertEqual(settings.data_path, Path("/home/meta/meta"))
        self.assertEqual(settings.data_log_path, settings.data_path)
        self.assertEqual(settings.max_segment_bytes, 1 << 30)
        self.assertEqual(settings.max_message_bytes, 16 << 20)
        self.assertEqual(settings.max_pending_bytes, 32 << 20)
        self.assertFalse(settings.update_consumer_offsets)
        self.assertIsNone(settings.app_class_path)
        topic = settings.topics["test"]
        self.assertEqual(topic.num_partitions, 1)
        self.assertTrue(topic.group_commit)
        self.assertEqual(topic.delete_policy, RetentionPolicy("delete", 604800))
        self.assertEqual(topic.delete_when, "0 0 6,18 * * ?")

    def test_shipped(self) -> None:
        """The shipped file loads, and its unsafe offset setting is pointed out."""
        settings = load(SHIPPED)
        self.assertEqual(list(settings.topics), ["meta-test", "test"])
        self.assertTrue(settings.topics["test"].stat)
        (warning,) = notes(settings)
        self.assertIn("[system] updateConsumerOffsets: true lets", warning)

    def test_commented_in_gbk(self) -> None:
        """The commented sample loads from GBK bytes, Chinese values included."""
        for encoding in ("gbk", "utf-8"):
            settings = load(COMMENTED.encode(encoding))
            self.assertEqual(settings.data_path, Path("/srv/数据"))
            self.assertTrue(settings.topics["test"].stat)

    def test_text_is_kept(self) -> None:
        """The file is kept byte for byte, with the checksum that clients compare."""
        raw = COMMENTED.encode("gbk")
        settings = load(raw)
        self.assertEqual(settings.text, raw)
        self.assertEqual(settings.config_checksum, zlib.crc32(raw))

    def test_missing_file(self) -> None:
        """A file that cannot be read is one problem with its path."""
        error = self.assertRaises(
            SettingsError, load_settings, Path("/nowhere/server.ini"), {}
        )
        (problem,) = error.problems
        self.assertIn("/nowhere/server.ini: cannot be read: No such file", problem)


class KeyTests(SynchronousTestCase):
    """Names of keys and sections."""

    def test_unknown_key(self) -> None:
        """An unknown key is refused with line, section and the nearest known key."""
        (problem,) = problems(MINIMAL + "numPartitons=3\n")
        self.assertEqual(
            problem,
            "server.ini:11: [topic=test] numPartitons: unknown key "
            "(did you mean numPartitions?)",
        )

    def test_key_of_another_section(self) -> None:
        """A known key in the wrong section is refused with the right one."""
        (problem,) = problems(MINIMAL + "serverPort=1\n")
        self.assertIn("[topic=test] serverPort: unknown key (it belongs", problem)
        self.assertIn("into [system])", problem)

    def test_own_key_in_topic_section(self) -> None:
        """Our own keys stay out of topic sections, which a Java broker must read."""
        (problem,) = problems(MINIMAL + "retentionBytes=1\n")
        self.assertIn("write retentionBytes.test in [metatwist]", problem)

    def test_internal_names(self) -> None:
        """Names that the original takes silently are ignored with a warning."""
        settings = load(MINIMAL + "filterClassNames=x\n[zookeeper]\nbrokerId=7\n")
        self.assertEqual(settings.broker_id, 0)
        self.assertEqual([note.split(":")[1] for note in notes(settings)], ["13", "11"])
        self.assertIn("a Java broker ignores this name", settings.warnings[0])

    def test_unknown_section(self) -> None:
        """An unknown section is ignored with a warning and, if near, a suggestion."""
        text = MINIMAL + "[slave]\nx=1\n[metatwst]\n[topics=news]\n[Topic=a]\n"
        found = notes(load(text))
        self.assertEqual(
            found[0], "server.ini:11: [slave] is no section of a broker and is ignored"
        )
        for note, hint in zip(
            found[1:], ("[metatwist]", "[topic=news]", "[topic=a]"), strict=True
        ):
            self.assertIn(f"(did you mean {hint}?)", note)

    def test_empty_is_not_set(self) -> None:
        """An empty value is no value: defaults hold, required keys are missing."""
        self.assertEqual(load(MINIMAL + "[system]\nserverPort=\n").server_port, 8123)
        (problem,) = problems(MINIMAL + "[system]\nbrokerId=\n")
        self.assertEqual(
            problem,
            "server.ini: [system] brokerId: has no value; add a line brokerId=0 "
            "below [system]",
        )

    def test_required(self) -> None:
        """Without required keys and topics each of them is named."""
        found = problems("[sytem]\n")
        self.assertEqual(
            found[0],
            "server.ini: there is no section [system] (is [sytem] meant to be it?)",
        )
        self.assertEqual(
            [problem.partition(": has no value")[0] for problem in found[1:7]],
            [
                "server.ini: [system] brokerId",
                "server.ini: [system] numPartitions",
                "server.ini: [system] unflushThreshold",
                "server.ini: [system] unflushInterval",
                "server.ini: [system] maxSegmentSize",
                "server.ini: [system] maxTransferSize",
            ],
        )
        self.assertIn("there is no topic", found[7])

    def test_looks_like_regex(self) -> None:
        """A name that a Java broker reads as an expression is pointed out."""
        settings = load(MINIMAL + "[topic=(a|b)]\n")
        self.assertIn("taken as it stands", settings.warnings[0])
        self.assertIsNone(settings.for_topic("a"))


class ValueTests(SynchronousTestCase):
    """Values and their faults."""

    def test_all_problems_at_once(self) -> None:
        """One load names every fault: of lines, keys and values."""
        found = problems(
            MINIMAL
            + "nonsense\n[system]\nbrokerId=1024\nserverPort=65536\nbrokerIdd=1\n"
            + "deletePolicy=delete\ndeleteWhen=soon\nstat=yes\nmaxSegmentSize=0\n"
            + "unflushInterval=1024*1024*1024*4\nflushTxLogAtCommit=3\n"
        )
        for words in (
            "server.ini:11: `nonsense` has neither",
            "server.ini:13: [system] brokerId: 1024 is not within 0 to 1023",
            "server.ini:14: [system] serverPort: 65536 is not within 0 to 65535",
            "server.ini:15: [system] brokerIdd: unknown key",
            "server.ini:16: [system] deletePolicy: `delete` names no time",
            "server.ini:17: [system] deleteWhen: ",
            "server.ini:18: [system] stat: `yes` is neither true nor false",
            "server.ini:19: [system] maxSegmentSize: 0 is below 1",
            "server.ini:20: [system] unflushInterval: 4294967296 does not fit 32 bits",
            "server.ini:21: [system] flushTxLogAtCommit: 3 is not within 0 to 2",
        ):
            self.assertEqual(
                [p.startswith(words) for p in found].count(True), 1, (words, found)
            )
        self.assertEqual(len(found), 10)

    def test_topic_overrides(self) -> None:
        """A topic section's values hold for that topic, the others are inherited."""
        topic = load(
            MINIMAL
            + "numPartitions=2*3\nunflushThreshold=10\nunflushInterval=5\n"
            + "dataPath=/other\ndeletePolicy=archive,1,true\n"
            + "deleteWhen=0  0/5 * * * ?\nacceptPublish=false\nacceptSubscribe=false\n"
            + "stat=True\ngroup.g1=com.example.Filter\ngroup.g-2=filters.second\n"
        ).topics["test"]
        self.assertEqual((topic.num_partitions, topic.unflush_interval_ms), (6, 5))
        self.assertFalse(topic.group_commit)
        self.assertEqual(topic.data_path, Path("/other"))
        self.assertEqual(topic.delete_policy, RetentionPolicy("archive", 3600, True))
        self.assertEqual(topic.delete_when, "0 0/5 * * * ?")
        self.assertEqual(
            (topic.accept_publish, topic.accept_subscribe, topic.stat),
            (False, False, True),
        )
        self.assertEqual(
            topic.filters, {"g1": "com.example.Filter", "g-2": "filters.second"}
        )

    def test_stat_of_a_topic(self) -> None:
        """In a topic section everything but true is false, with a warning if odd."""
        settings = load(MINIMAL + "stat=yes\n")
        self.assertFalse(settings.topics["test"].stat)
        self.assertIn("[topic=test] stat: `yes` counts as false", settings.warnings[0])

    def test_paths(self) -> None:
        """Relative paths start at the working directory, ~ at the home directory."""
        settings = load(MINIMAL + "dataPath=~/x\n[system]\ndataPath=a/../b\n")
        self.assertEqual(settings.data_path, Path.cwd() / "b")
        self.assertEqual(settings.data_log_path, settings.data_path)
        self.assertEqual(settings.topics["test"].data_path, Path("/home/meta/x"))

    def test_filter_directory(self) -> None:
        """The directory `provided` beside that of the file is found by itself."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        root = Path(directory.name)
        (root / "provided").mkdir()
        (root / "conf").mkdir()
        (root / "conf" / "server.ini").write_text(MINIMAL)
        settings = load_settings(root / "conf" / "server.ini", {})
        self.assertEqual(settings.app_class_path, root / "provided")
        given = load(MINIMAL + "[system]\nappClassPath=/filters/\n")
        self.assertEqual(given.app_class_path, Path("/filters"))

    def test_filters_without_a_directory(self) -> None:
        """Filters that cannot come into force are warned about, with the reason."""
        (note,) = notes(load(MINIMAL + "group.g=a.b\n"))
        self.assertIn("appClassPath: is not set, so the group.* keys of test", note)
        given = "[system]\nappClassPath=/nowhere\n"
        (note,) = notes(load(MINIMAL + "group.g=a.b\n" + given))
        self.assertIn("appClassPath: /nowhere is no directory", note)
        self.assertEqual(notes(load(MINIMAL + given)), [])

    def test_filter_names(self) -> None:
        """A filter's name has a module and something in it."""
        for name in ("accept", "accept.", ".accept", "a..b"):
            (problem,) = problems(f"{MINIMAL}group.g={name}\n")
            self.assertIn(f"group.g: `{name}` names no filter", problem)

    def test_most_partitions(self) -> None:
        """A topic has at most 100,000 partitions."""
        (problem,) = problems(MINIMAL + "numPartitions=100001\n")
        self.assertIn("numPartitions: 100001 is not within 1 to 100000", problem)
        most = load(MINIMAL + "numPartitions=100000\n").topics["test"]
        self.assertEqual(most.num_partitions, 100_000)

    def test_retention_by_topic(self) -> None:
        """A bound in bytes holds for all partitions, or for those of one section."""
        settings = load(
            MINIMAL
            + "[topic=n*]\n[metatwist]\nretentionBytes=10\nretentionBytes.n*=1024*5\n"
        )
        self.assertEqual(settings.retention_bytes, 10)
        self.assertEqual(settings.topics["test"].retention_bytes, 10)
        found = settings.for_topic("news")
        assert found is not None
        self.assertEqual(found.retention_bytes, 5120)

    def test_retention_of_unknown_topic(self) -> None:
        """A bound for a topic without section is refused with the nearest name."""
        (problem,) = problems(MINIMAL + "[metatwist]\nretentionBytes.tset=1\n")
        self.assertIn(
            "[metatwist] retentionBytes.tset: there is no section [topic=tset] "
            "(did you mean test?)",
            problem,
        )

    def test_pending_holds_one_message(self) -> None:
        """The bound of waiting bytes must have room for the largest message."""
        (problem,) = problems(MINIMAL + "[metatwist]\nmaxPendingBytes=1024\n")
        self.assertIn("maxPendingBytes: 1024 leaves no room", problem)


class ZooKeeperTests(SynchronousTestCase):
    """`[zookeeper]` (spec configuration 4)."""

    def test_optional(self) -> None:
        """Without the section there is no ensemble; an empty one is pointed out."""
        self.assertIsNone(load(SYSTEM + "[topic=a]\n").zookeeper)
        settings = load(SYSTEM + "[zookeeper]\n[topic=a]\n")
        self.assertIsNone(settings.zookeeper)
        self.assertIn("[zookeeper] has no keys", settings.warnings[0])

    def test_defaults(self) -> None:
        """Any key is enough for an ensemble on this machine."""
        found = load(SYSTEM + "[topic=a]\n[zookeeper]\nzk.zkEnable=false\n").zookeeper
        assert found is not None
        self.assertEqual(found.connect, "localhost:2181")
        self.assertEqual((found.enable, found.root), (False, "/meta"))
        self.assertEqual(
            (found.session_timeout_ms, found.connection_timeout_ms, found.sync_time_ms),
            (30000, 30000, 5000),
        )

    def test_root(self) -> None:
        """The root gets a slash in front and loses one behind."""
        for text, root in {"a": "/a", "/a/": "/a", "/": "", "/a/b": "/a/b"}.items():
            found = load(f"{MINIMAL}[zookeeper]\nzk.zkRoot={text}\n").zookeeper
            assert found is not None
            self.assertEqual(found.root, root)

    def test_root_is_a_path(self) -> None:
        """A root that cannot be a path of znodes is refused."""
        for text in ("/a//b", "/a/../b", "/a/./b"):
            (problem,) = problems(f"{MINIMAL}[zookeeper]\nzk.zkRoot={text}\n")
            self.assertIn(f"zk.zkRoot: `{text}` is no path of znodes", problem)

    def test_connect(self) -> None:
        """A server list is checked for form, chroot and IPv6 are fine."""
        for text in ("a:1, b:2,c", "a:1/x/y", "[::1]:2181"):
            load(f"{MINIMAL}[zookeeper]\nzk.zkConnect={text}\n")
        for text in ("a b", "a:1,,b:2", "a:x", "zk://a:1", "a:99999"):
            (problem,) = problems(f"{MINIMAL}[zookeeper]\nzk.zkConnect={text}\n")
            self.assertIn(f"zk.zkConnect: `{text}` is no list of servers", problem)
