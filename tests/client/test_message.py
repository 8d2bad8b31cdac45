"""Messages as text."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.message import ReceivedMessage
from metatwist.coordination.names import PartitionName


class ReprTest(SynchronousTestCase):
    """What stands in logs."""

    def _repr(self, payload: bytes) -> str:
        return repr(ReceivedMessage("t", PartitionName(1, 2), 30, 40, 5, 0, payload))

    def test_small(self) -> None:
        """All of a small message is shown."""
        expected = (
            "ReceivedMessage(topic='t', partition=1-2, offset=30, next_offset=40,"
            " message_id=5, flag=0, payload=b'abc')"
        )
        self.assertEqual(self._repr(b"abc"), expected)

    def test_large(self) -> None:
        """Of a large one the beginning, and its size."""
        shown = self._repr(b"x" * (4 << 20))
        self.assertLess(len(shown), 300)
        self.assertIn(" of 4194304 bytes", shown)
