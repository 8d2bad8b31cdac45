"""Values of znodes, in every form that was ever written."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.broker_url import BrokerUrl, host_problem, read_broker_url
from metatwist.coordination.formats import (
    OffsetRecord,
    TopicRegistration,
    config_checksum,
    encode_checksum,
    encode_topics,
    read_checksum,
    read_offset,
    read_partition_count,
    read_topics,
)
from metatwist.coordination.layout import TopicTree
from metatwist.coordination.names import NodeName
from metatwist.coordination.unreadable import Unreadable

INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
LABEL = st.from_regex("[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
HOST = NAME | st.ip_addresses().map(str)
JSON_TREES = (TopicTree.PUBLISH, TopicTree.SUBSCRIBE)


class AnyBytesTest(SynchronousTestCase):
    """Readers meet anything on a real tree."""

    @given(st.binary(max_size=60))
    def test_nothing_raises(self, data: bytes) -> None:
        """Whatever stands in a node, each reader answers."""
        for read in (read_broker_url, read_checksum, read_offset, read_topics):
            read(data)
        for tree in TopicTree:
            read_partition_count(tree, data)

    def test_blank_is_absent(self) -> None:
        """No data, or white space only, is no value."""
        for data in (b"", b" ", b"\n\t"):
            for read in (read_broker_url, read_checksum, read_offset):
                self.assertIsNone(read(data))
            for tree in TopicTree:
                self.assertIsNone(read_partition_count(tree, data))
            self.assertEqual(read_topics(data), frozenset())

    def test_not_text(self) -> None:
        """Bytes that are no UTF-8 are kept in a form that can be shown."""
        found = read_offset(b"\xff\x005")
        self.assertEqual(found, Unreadable("\\xff\x005", "is not UTF-8"))

    def test_a_long_text_is_cut(self) -> None:
        """Of a huge value 200 characters are kept."""
        found = read_offset(b"x" * 1_000_000)
        assert isinstance(found, Unreadable)
        self.assertEqual(len(found.text), 200)

    def test_deep_json(self) -> None:
        """A value made to exhaust the stack is as unreadable as any other."""
        deep = b'{"numParts":' + b"[" * 100_000
        found = read_partition_count(TopicTree.PUBLISH, deep)
        self.assertIsInstance(found, Unreadable)


class BrokerUrlTest(SynchronousTestCase):
    """Addresses of brokers."""

    @given(HOST, st.integers(min_value=1, max_value=65535))
    def test_read_back(self, host: str, port: int) -> None:
        """What may be registered reads back as the same."""
        url = BrokerUrl(host, port)
        self.assertEqual(read_broker_url(url.encode()), url)

    def test_texts(self) -> None:
        """IPv6 addresses stand in brackets."""
        self.assertEqual(
            BrokerUrl("192.0.2.20", 8123).encode(), b"meta://192.0.2.20:8123"
        )
        self.assertEqual(BrokerUrl("fe80::1", 8123).encode(), b"meta://[fe80::1]:8123")

    def test_what_follows_the_port(self) -> None:
        """A path and the query that Java keeps in memory are left out."""
        for end in (b"", b"/", b"?slaveId=1", b"/x?y=1#z"):
            found = read_broker_url(b"meta://host:8123" + end)
            self.assertEqual(found, BrokerUrl("host", 8123))

    def test_garbage(self) -> None:
        """Anything else is unreadable."""
        texts = ("host:8123", "http://host:1", "meta://host", "meta://:1", "meta://h:0")
        more = ("meta://h:65536", "meta://[zz]:1", "meta://[1.2.3.4]:1", "meta://a b:1")
        for text in (*texts, *more, "meta://h:1\n", " meta://h:1", "meta://::1:80"):
            self.assertIsInstance(read_broker_url(text.encode()), Unreadable, text)

    def test_hosts_that_java_cannot_read(self) -> None:
        """A host that Java's URI takes for none is not registered."""
        bad = ("my_host", "a.1b", "-a", "a-", "1.2.3", "256.1.1.1", "a..b", "bücher")
        for host in (*bad, "a.123", "", "fe80::1%eth0", "fe80:::1", "."):
            self.assertIsNotNone(host_problem(host), host)
            with self.assertRaises(ValueError):
                BrokerUrl(host, 8123).encode()

    def test_hosts_that_java_reads(self) -> None:
        """Names of letters, digits, dots and hyphens are fine, addresses too."""
        for host in ("4f3a2b", "a.b.", "mq-1.example.com", "192.0.2.1", "::1", "123"):
            self.assertIsNone(host_problem(host), host)

    def test_an_underscore_is_read(self) -> None:
        """A foreign broker's name with an underscore is read all the same."""
        found = read_broker_url(b"meta://my_host:8123")
        self.assertEqual(found, BrokerUrl("my_host", 8123))

    def test_ports(self) -> None:
        """A port that is none is not registered."""
        for port in (0, -1, 65536):
            with self.assertRaises(ValueError):
                BrokerUrl("host", port).encode()


class TopicRegistrationTest(SynchronousTestCase):
    """What brokers write into the topic trees."""

    @given(
        st.integers(min_value=1, max_value=100_000),
        st.builds(NodeName, st.integers(0, 1023), st.none() | st.integers(0, 9)),
    )
    def test_read_back(self, partitions: int, node: NodeName) -> None:
        """The count reads back from every tree."""
        value = TopicRegistration(partitions, node)
        for tree in TopicTree:
            data = value.encode(tree)
            self.assertEqual(read_partition_count(tree, data), partitions)

    def test_texts(self) -> None:
        """To the byte what the Java broker writes."""
        value = TopicRegistration(12, NodeName(0))
        self.assertEqual(value.encode(TopicTree.OLD), b"12")
        for tree in JSON_TREES:
            self.assertEqual(value.encode(tree), b'{"numParts":12,"broker":"0-m"}')

    def test_what_java_accepts(self) -> None:
        """Every form that the Java mapper takes is taken, with the same result."""
        accepted = {
            '{"broker":"0-m", "numParts" : 12}': 12,
            '\n{"numParts":"12"}': 12,
            '{"numParts":" 12 "}': 12,
            '{"numParts":12.7}': 12,
            '{"numParts":1e2}': 100,
            '{"numParts":"+3"}': 3,
            '{"numParts":3,"broker":5}': 3,
            '{"numParts":3,"broker":null}': 3,
            '{"numParts":3} {': 3,
            '{"numParts":3,"numParts":4}': 4,
            '{"numParts":null}': 0,
            '{"broker":"0-m"}': 0,
            "{}": 0,
        }
        for text, count in accepted.items():
            for tree in JSON_TREES:
                self.assertEqual(read_partition_count(tree, text.encode()), count, text)

    def test_what_java_refuses(self) -> None:
        """A registration that Java consumers cannot read counts for nobody."""
        members = ('"numParts":3,"x":1', '"numParts":""', '"numParts":true')
        more = ('"numParts":"3.5"', '"numParts":[3]', '"numParts":3,"broker":{}')
        numbers = ('"numParts":99999999999', '"numParts":03', '"numParts":NaN')
        texts = [f"{{{text}}}" for text in (*members, *more, *numbers)]
        for text in (*texts, "12", '"12"', "[]", "null", "{'numParts':3}", "{"):
            for tree in JSON_TREES:
                found = read_partition_count(tree, text.encode())
                self.assertIsInstance(found, Unreadable, text)

    def test_the_reason_names_the_member(self) -> None:
        """Of an unknown member the name is told."""
        found = read_partition_count(TopicTree.PUBLISH, b'{"numParts":1,"epoch":2}')
        assert isinstance(found, Unreadable)
        self.assertEqual(found.reason, "has the unknown member 'epoch'")

    def test_old_tree(self) -> None:
        """The old tree has the bare count, and nothing else."""
        self.assertEqual(read_partition_count(TopicTree.OLD, b"12"), 12)
        for data in (b'{"numParts":12}', b"x", b"-1", b"1.0", b"12\n"):
            found = read_partition_count(TopicTree.OLD, data)
            self.assertIsInstance(found, Unreadable)

    def test_absurd_counts(self) -> None:
        """A count that would fill the memory is garbage."""
        for data in (b"100001", b"-3", b"9" * 5000):
            json = b'{"numParts":' + data + b"}"
            self.assertIsInstance(read_partition_count(TopicTree.OLD, data), Unreadable)
            found = read_partition_count(TopicTree.SUBSCRIBE, json)
            self.assertIsInstance(found, Unreadable)


class ChecksumTest(SynchronousTestCase):
    """The checksum of a configuration file."""

    @given(st.binary())
    def test_read_back(self, file: bytes) -> None:
        """It is the unsigned CRC-32, in decimal."""
        self.assertEqual(config_checksum(file), zlib.crc32(file) & 0xFFFFFFFF)
        data = encode_checksum(config_checksum(file))
        self.assertEqual(read_checksum(data), config_checksum(file))

    def test_texts(self) -> None:
        """A known file has the known text; what is no 32 bit number is garbage."""
        self.assertEqual(encode_checksum(config_checksum(b"123456789")), b"3421780262")
        for data in (b"-1", b"4294967296", b"0x1", b"1 "):
            self.assertIsInstance(read_checksum(data), Unreadable)


class TopicsTest(SynchronousTestCase):
    """The topics that a consumer registers."""

    @given(st.frozensets(st.text("abc-_.订", min_size=1, max_size=5)))
    def test_read_back(self, topics: frozenset[str]) -> None:
        """The order does not matter, and none at all is fine."""
        self.assertEqual(read_topics(encode_topics(topics)), topics)

    def test_same_text_each_time(self) -> None:
        """The same topics are the same text, so that a retry is known for its own."""
        self.assertEqual(encode_topics(frozenset({"b", "a", "c"})), b"a,b,c")

    def test_names_that_cannot_be_listed(self) -> None:
        """A comma or nothing in a name would change the list."""
        for topic in ("a,b", "", " "):
            with self.assertRaises(ValueError):
                encode_topics(frozenset({topic}))

    def test_stray_commas(self) -> None:
        """Empty entries are no topics."""
        self.assertEqual(read_topics(b",a,,b,"), frozenset({"a", "b"}))


class OffsetTest(SynchronousTestCase):
    """Committed offsets."""

    @given(
        st.integers(min_value=0, max_value=2**63 - 1),
        st.none() | INT64.filter(lambda number: number != -1),
    )
    def test_read_back(self, offset: int, message_id: int | None) -> None:
        """Whatever is committed reads back as the same, negative ids too."""
        record = OffsetRecord(offset, message_id)
        self.assertEqual(read_offset(record.encode()), record)

    def test_texts(self) -> None:
        """The message id is what stands before the last hyphen."""
        expected = {
            b"-5468931049541074944-22": OffsetRecord(22, -5468931049541074944),
            b"-1-0": OffsetRecord(0),
            b"0-4096": OffsetRecord(4096, 0),
            b"4096": OffsetRecord(4096),
            b"7-9": OffsetRecord(9, 7),
            b"-5": OffsetRecord(-5),
            b"+7": OffsetRecord(7),
            b"9223372036854775807": OffsetRecord(2**63 - 1),
        }
        for data, record in expected.items():
            self.assertEqual(read_offset(data), record)

    def test_written_form(self) -> None:
        """An unknown id is written as -1."""
        self.assertEqual(OffsetRecord(4096).encode(), b"-1-4096")
        self.assertEqual(
            OffsetRecord(22, -5468931049541074944).encode(), b"-5468931049541074944-22"
        )

    def test_garbage(self) -> None:
        """What Java cannot parse is unreadable, and its text is kept."""
        texts = ("abc", "-", "5-", "7--9", "--5", "1-2 ", " 5", "5\n", "1.5")
        for text in (*texts, "9223372036854775808", "-9223372036854775809-1", "1_0"):
            found = read_offset(text.encode())
            assert isinstance(found, Unreadable), text
            self.assertEqual(found.text, text)

    def test_values_that_cannot_be_written(self) -> None:
        """Neither a negative offset nor a number past 64 bits is ever committed."""
        with self.assertRaises(ValueError):
            OffsetRecord(-5).encode()
        with self.assertRaises(ValueError):
            OffsetRecord(2**63)
        with self.assertRaises(ValueError):
            OffsetRecord(0, -(2**63) - 1)
