"""Recognising messages that come again (spec client 14)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.delivery.duplicates import Duplicates, Window
from metatwist.client.message import ReceivedMessage, TopicPartition
from metatwist.coordination.names import PartitionName
from tests.client.delivery.scripted import AT, message

LOGS = st.lists(st.tuples(st.integers(1, 3), st.integers(-2, 2)), max_size=40)
"""Sizes and ids, of which many are the same."""


def log_of(sizes_and_ids: list[tuple[int, int]]) -> list[ReceivedMessage]:
    """Messages one behind the other."""
    offset, found = 0, []
    for size, its_id in sizes_and_ids:
        found.append(ReceivedMessage(*AT, offset, offset + size, its_id, 0, b""))
        offset += size
    return found


def is_known(window: Window, one: ReceivedMessage) -> bool:
    """Whether a message that comes alone is known."""
    return bool(window.known([one]))


class WindowTest(SynchronousTestCase):
    """One partition."""

    @given(LOGS, st.data(), st.integers(0, 12))
    def test_never_hides_a_new_message(
        self, sizes: list[tuple[int, int]], data: st.DataObject, most: int
    ) -> None:
        """Whatever is read in whatever order: what was not consumed is not known, what
        was among the last ones is, as one batch or alone."""
        log, window = log_of(sizes), Window(most)
        consumed: list[ReceivedMessage] = []
        for _ in range(5):
            first = data.draw(st.integers(0, len(log)))
            batch = log[first : first + data.draw(st.integers(0, 6))]
            known = window.known(batch)
            new = [one for one in batch if (one.offset, one.message_id) not in known]
            last = consumed[-most:] if most else []
            self.assertEqual([one for one in batch if one not in last], new)
            window.record(new)
            consumed += new
        for one in log:
            last = consumed[-most:] if most else []
            self.assertEqual(one in last, is_known(window, one))

    def test_same_id_elsewhere(self) -> None:
        """An id that comes again at another offset is a new message, and so is another
        id at a known offset (W20)."""
        window = Window(10)
        window.record([message(1)])
        self.assertFalse(is_known(window, message(2)._replace(message_id=1001)))
        self.assertFalse(is_known(window, message(1)._replace(message_id=5)))
        self.assertTrue(is_known(window, message(1)))

    def test_forgotten(self) -> None:
        """After `forget` nothing is known."""
        window = Window(10)
        window.record([message(1)])
        window.forget()
        self.assertFalse(is_known(window, message(1)))

    def test_bounded(self) -> None:
        """Only the last ones are kept, also of a larger batch."""
        window = Window(3)
        window.record([message(number) for number in range(10)])
        known = [n for n in range(10) if is_known(window, message(n))]
        self.assertEqual([7, 8, 9], known)


class DuplicatesTest(SynchronousTestCase):
    """One consumer."""

    def test_by_partition(self) -> None:
        """A partition has the same window whenever it is held, and no other has it."""
        duplicates = Duplicates(10)
        duplicates.window(AT).record([message(1)])
        other = TopicPartition("orders", PartitionName(0, 4))
        self.assertTrue(is_known(duplicates.window(AT), message(1)))
        self.assertFalse(is_known(duplicates.window(other), message(1)))

    def test_bounded(self) -> None:
        """The partition that was longest not held is forgotten first."""
        duplicates = Duplicates(10, most_partitions=2)
        first, second, third = (
            TopicPartition("orders", PartitionName(0, number)) for number in range(3)
        )
        for one in (first, second):
            duplicates.window(one).record([message(1)])
        duplicates.window(first)
        duplicates.window(third)
        self.assertTrue(is_known(duplicates.window(first), message(1)))
        self.assertFalse(is_known(duplicates.window(second), message(1)))
