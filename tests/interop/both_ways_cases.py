"""What our client sends the Java client reads, and the reverse, byte for byte: cases to
inherit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from .client_case import GROUP, NAMES
from .driver_session import END, Body, Consumption, DriverSession, Received, Sent
from .mixed_case import MixedCase
from .systems import PARTITIONS, TOPIC
from .traffic import Acknowledged

MIB = 1024 * 1024
FETCH_BYTES = 2 * MIB
MESSAGES = [
    Body(b"no attribute"),
    Body(b""),
    Body(b"", ""),
    Body(b"an empty attribute", ""),
    Body(b"red", "red"),
    Body(b"in many scripts", "naïve 中文 \u202e\u05d0 😀\U0001d4b3"),
    Body(b"", "an attribute and no body"),
    Body(b"a long attribute", "lång " * 20_000),
    Body(bytes(range(256)) * 16, "all bytes"),
    Body(bytes(range(255, -1, -1)) * (MIB // 256), "large"),
    Body(b"\r\n0 0 value 3\r\n", "\r\n"),
]
BEHIND = [Body(b"behind all") for _ in range(PARTITIONS)]
ORDERED = [Body(b"ordered %d" % number, f"{number}") for number in range(50)]
ONE_WAY = [Body(b"one way %d" % number, f"{number}") for number in range(50)]


class BothWaysCases(MixedCase):
    """To be inherited, with `make_system`."""

    def stored(
        self, messages: Sequence[Body], outcomes: Sequence[Sent]
    ) -> list[Received]:
        """All were, as they should be received."""
        self.assertEqual([one for one in outcomes if not one.success], [])
        pairs = zip(messages, outcomes, strict=True)
        return [Acknowledged(*pair).as_received(TOPIC) for pair in pairs]

    def send_all(self, sender: DriverSession) -> list[Received]:
        """Send what there is to send in turn, and all at once."""
        stored = self.stored(MESSAGES, sender.send(TOPIC, MESSAGES, 30_000))
        outcomes = sender.send_with_callback(TOPIC, MESSAGES, 30_000)
        stored += self.stored(MESSAGES, outcomes)
        # The Java broker forces no large message to the disk before a small one comes,
        # and until then lets nobody begin to read there.
        return stored + self.stored(BEHIND, sender.send(TOPIC, BEHIND))

    def assert_gets(self, reader: DriverSession, expected: Iterable[Received]) -> None:
        """It comes to be given just these, each once, in order of each partition."""
        ordered = by_partition(in_order(expected))
        count = sum(map(len, ordered.values()))
        self.wait_until(
            lambda: len(reader.received()) >= count, f"{reader.name} gets {count}"
        )
        found = by_partition(reader.received())
        self.assertEqual(found, ordered)

    def assert_browses(
        self, reader: DriverSession, expected: Iterable[Received]
    ) -> list[Received]:
        """It finds just these, partition by partition."""
        found = reader.browse(TOPIC, FETCH_BYTES)
        self.assertEqual([told(one) for one in found], [told(one) for one in expected])
        return found

    def read(
        self, reader: DriverSession, group: str, how: Consumption | None = None
    ) -> None:
        """It joins a group."""
        reader.consume(group, [TOPIC], how or Consumption(max_bytes=FETCH_BYTES))

    def test_ours_to_java(self) -> None:
        """What ours sends in turn, many at once, in order and one way, Java's listener
        gets and its browser finds: ids, offsets, attributes and bodies."""
        sender = self.ours("sender")
        sender.publish(TOPIC)
        expected = self.send_all(sender)
        ordered = self.stored(ORDERED, sender.send_ordered(TOPIC, ORDERED, "0-3"))
        self.assertEqual(ordered, sorted(ordered, key=lambda one: one.next_offset or 0))
        reader = self.session("reader")
        self.read(reader, GROUP)
        self.assert_gets(reader, expected + ordered)
        self.assert_browses(reader, in_order(expected + ordered))
        before = {one.id for one in reader.received()}
        sender.send_one_way(TOPIC, ONE_WAY)
        self.wait_until(
            lambda: len(reader.received()) == len(before) + len(ONE_WAY),
            "all that was sent one way is received",
        )
        found = [one for one in reader.received() if one.id not in before]
        self.assertEqual(
            {(one.body, one.attribute) for one in found},
            {(one.body, one.attribute) for one in ONE_WAY},
        )

    def test_java_to_ours(self) -> None:
        """What the Java client sends in turn and by callback, our listener, iterator,
        batches and browser get: ids, offsets, attributes and bodies."""
        sender = self.producer()
        expected = self.send_all(sender)
        ours = self.ours("reader")
        for pulled in (None, "iterator", "batches"):
            name = pulled or "listener"
            reader = ours.driver.session(name, self.zookeeper())
            how = Consumption(pulled=pulled, most=len(expected))
            self.read(reader, f"{GROUP}-{name}", how)
            self.assert_gets(reader, expected)
        found = self.assert_browses(ours, in_order(expected))
        self.assertEqual(found, in_order(expected))

    def test_hand_over(self) -> None:
        """Where ours stops, in the middle of what there is, the Java client goes on
        with the next message, and the reverse."""
        sender = self.producer()
        messages = [Body(b"message %d" % number) for number in range(120)]
        expected = self.stored(messages, sender.send(TOPIC, messages))
        ours = self.ours("ours")
        self.read(ours, GROUP, Consumption(pulled="batches", most=50))
        self.wait_until(lambda: bool(ours.driver.events("taken")), "50 are taken")
        ours.stop_consuming()
        taken = set(ours.received())
        self.assertEqual(len(ours.received()), 50)
        java = self.session("java")
        self.read(java, GROUP)
        self.assert_gets(java, [one for one in expected if one not in taken])
        self.wait_until(
            lambda: self.tree.offsets() == ends_of(expected), "all is committed"
        )
        java.stop_consuming()
        later = self.stored(messages, sender.send(TOPIC, messages))
        reader = ours.driver.session("again", self.zookeeper())
        self.read(reader, GROUP)
        self.assert_gets(reader, later)

    def test_start_at_the_end(self) -> None:
        """A new group that starts at the end, of both kinds of members, gets what is
        sent from then on and nothing else."""
        sender = self.producer()
        messages = [Body(b"message %d" % number) for number in range(60)]
        before = self.stored(messages, sender.send(TOPIC, messages))
        readers = [self.ours("ours"), self.session("java")]
        for reader in readers:
            how = Consumption(consumer_id=reader.name, offset=END)
            reader.consume(GROUP, [TOPIC], how)
        self.wait_for_shares({"ours": [TOPIC], "java": [TOPIC]})
        self.wait_until(
            lambda: self.tree.offsets() == ends_of(before), "the ends are committed"
        )
        after = self.stored(messages, sender.send(TOPIC, messages))
        self.wait_until(
            lambda: len(self.everything()) >= len(after), "all that is new is received"
        )
        self.assertEqual(
            by_partition(in_order(self.everything())), by_partition(in_order(after))
        )
        self.assertTrue(all(one.received() for one in readers))


def told(one: Received) -> tuple[int, bytes, str | None]:
    """What the Java browser tells of a message."""
    return one.id, one.body, one.attribute


def in_order(messages: Iterable[Received]) -> list[Received]:
    """By partition and offset."""
    ordered = by_partition(sorted(messages, key=lambda one: one.next_offset or 0))
    return [one for name in NAMES for one in ordered.get(name, [])]


def by_partition(messages: Iterable[Received]) -> dict[str | None, list[Received]]:
    """As they came, of each partition."""
    found = defaultdict(list)
    for one in messages:
        found[one.partition].append(one)
    return dict(found)


def ends_of(messages: Iterable[Received]) -> dict[str | None, int]:
    """Where the partitions end that hold just these."""
    return {
        name: max(one.next_offset or 0 for one in its)
        for name, its in by_partition(messages).items()
    }
