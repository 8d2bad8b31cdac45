"""Offsets in memory."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase, TestCase

from metatwist.client.offsets.interface import Claim
from metatwist.client.offsets.memory import MemoryOffsets
from metatwist.coordination.formats import OffsetRecord
from tests.client.offsets.offset_contract import GROUP, OffsetContract, place


class MemoryContractTest(OffsetContract, TestCase):
    """The contract, with one dict a group."""

    def setUp(self) -> None:
        """Nothing is stored."""
        self.groups: dict[str, dict[Any, Any]] = {}

    def new_storage(self, group: str = GROUP) -> Any:
        """See OffsetContract."""
        return succeed(MemoryOffsets(self.groups.setdefault(group, {})))


class MemoryTest(SynchronousTestCase):
    """What a test uses it for."""

    def test_given(self) -> None:
        """It can begin with offsets, and shows what it has."""
        storage = MemoryOffsets({place("t"): OffsetRecord(5)})
        loaded = self.successResultOf(storage.load(place("t"), Claim("g_c")))
        self.assertEqual(OffsetRecord(5), loaded)
        self.assertEqual({place("t"): OffsetRecord(5)}, storage.records)
