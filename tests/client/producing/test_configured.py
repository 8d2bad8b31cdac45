"""Configured partitions (spec client 2.1 and 8)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.producing.configured import configured_partitions


class ConfiguredTest(SynchronousTestCase):
    """Both forms."""

    def test_both_forms(self) -> None:
        """The original's text and counts by broker mean the same, in numeric order."""
        text = configured_partitions({"t": "10:2;2:1;"})
        self.assertEqual(text, configured_partitions({"t": {10: 2, 2: 1}}))
        self.assertEqual([str(one) for one in text["t"]], ["2-0", "10-0", "10-1"])

    def test_bad(self) -> None:
        """What is neither is refused with the topic's name."""
        for bad in ("", "0", "0:0", "0:x", "0:1;0:2", "0:1,1:1", {}, {0: 0}, {-1: 1}):
            with self.assertRaisesRegex(ValueError, "topic t"):
                configured_partitions({"t": bad})  # type: ignore[dict-item]
