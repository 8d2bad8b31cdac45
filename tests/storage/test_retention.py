"""Retention decisions: what leaves a partition, by age and by size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.storage.retention import (
    RemovalReason,
    RetentionLimits,
    SegmentAge,
    expired,
    oversized,
    removable,
)

NOW_S = 1_000_000.0
HOUR_S = 3600


def partition(*ages_s: float, size_bytes: int = 100) -> list[SegmentAge]:
    """Segments of one size, last written so long ago; the last one is written to."""
    return [
        SegmentAge(
            start=index * size_bytes,
            size_bytes=size_bytes,
            modified_s=NOW_S - age_s,
            sealed=index < len(ages_s) - 1,
        )
        for index, age_s in enumerate(ages_s)
    ]


generated_partitions = st.lists(
    st.builds(
        SegmentAge,
        start=st.just(0),
        size_bytes=st.integers(0, 50),
        modified_s=st.integers(0, 100).map(float),
        sealed=st.booleans(),
    ),
    max_size=12,
)


class ExpiredTests(SynchronousTestCase):
    """Age: the front of the partition, as far as it is old."""

    def test_old_front(self) -> None:
        """Segments at the front that are older than the age are to go."""
        segments = partition(4 * HOUR_S, 3 * HOUR_S, HOUR_S, 0)
        self.assertEqual(expired(segments, 2 * HOUR_S, NOW_S), 2)

    def test_strict(self) -> None:
        """A segment of exactly the age stays; a moment more and it goes."""
        segments = partition(HOUR_S, 0)
        self.assertEqual(expired(segments, HOUR_S, NOW_S), 0)
        self.assertEqual(expired(segments, HOUR_S, NOW_S + 0.001), 1)

    def test_touched_segment_stops_it(self) -> None:
        """An old segment behind a younger one stays, so no hole opens (D-12)."""
        segments = partition(9 * HOUR_S, 0, 9 * HOUR_S, 9 * HOUR_S, 0)
        self.assertEqual(expired(segments, HOUR_S, NOW_S), 1)

    def test_written_segment_stays(self) -> None:
        """The last segment stays however old it is, sealed or not."""
        segments = partition(9 * HOUR_S, 9 * HOUR_S)
        self.assertEqual(expired(segments, HOUR_S, NOW_S), 1)
        self.assertEqual(expired(segments[:1], HOUR_S, NOW_S), 0)

    def test_unsealed_segment_stops_it(self) -> None:
        """A segment that is not sealed stays, and so does all behind it."""
        front, *rest = partition(9 * HOUR_S, 9 * HOUR_S, 0)
        unsealed = SegmentAge(0, 100, front.modified_s, sealed=False)
        self.assertEqual(expired([unsealed, *rest], HOUR_S, NOW_S), 0)

    def test_written_in_the_future(self) -> None:
        """A modification time ahead of the clock is no age at all."""
        self.assertEqual(expired(partition(-HOUR_S, 0), 0, NOW_S), 0)

    def test_nothing(self) -> None:
        """A partition without segments loses none."""
        self.assertEqual(expired([], HOUR_S, NOW_S), 0)


class OversizedTests(SynchronousTestCase):
    """Size: as much of the front as it takes to fit the bound."""

    def test_as_few_as_needed(self) -> None:
        """Just enough segments go for the rest to be within the bound."""
        segments = partition(0, 0, 0, 0)
        self.assertEqual(oversized(segments, 400), 0)
        self.assertEqual(oversized(segments, 399), 1)
        self.assertEqual(oversized(segments, 200), 2)

    def test_written_segment_stays(self) -> None:
        """The last segment stays even if it alone passes the bound."""
        self.assertEqual(oversized(partition(0, 0, 0), 1), 2)

    def test_no_bound(self) -> None:
        """A bound of 0 removes nothing."""
        self.assertEqual(oversized(partition(0, 0, 0), 0), 0)

    @given(generated_partitions, st.integers(1, 400))
    def test_fits_and_not_more(
        self, segments: list[SegmentAge], retention_bytes: int
    ) -> None:
        """What stays fits the bound or cannot be cut, and one less would not fit."""
        count = oversized(segments, retention_bytes)
        stays_bytes = sum(segment.size_bytes for segment in segments[count:])
        cannot_go = count >= len(segments) - 1 or not segments[count].sealed
        self.assertTrue(stays_bytes <= retention_bytes or cannot_go)
        if count:
            last_out_bytes = segments[count - 1].size_bytes
            self.assertGreater(stays_bytes + last_out_bytes, retention_bytes)


class RemovableTests(SynchronousTestCase):
    """Both limits together, with the reason for each segment."""

    def test_reasons(self) -> None:
        """The old ones go for their age, those beyond that for the size."""
        segments = partition(9 * HOUR_S, 0, 0, 0)
        removals = removable(segments, RetentionLimits(HOUR_S, 200), NOW_S)
        self.assertEqual(
            [(removal.segment.start, removal.reason) for removal in removals],
            [(0, RemovalReason.AGE), (100, RemovalReason.SIZE)],
        )

    def test_age_beyond_size(self) -> None:
        """Age removes what the size bound would have kept."""
        segments = partition(9 * HOUR_S, 9 * HOUR_S, 0)
        removals = removable(segments, RetentionLimits(HOUR_S, 299), NOW_S)
        self.assertEqual(
            [removal.reason for removal in removals], [RemovalReason.AGE] * 2
        )

    def test_reason_reads_as_a_word(self) -> None:
        """A reason has the word for a log line."""
        self.assertEqual([reason.value for reason in RemovalReason], ["age", "size"])

    @given(generated_partitions, st.integers(0, 100), st.integers(0, 400))
    def test_front_and_never_all(
        self, segments: list[SegmentAge], max_age_s: int, retention_bytes: int
    ) -> None:
        """Whatever the limits, it is a sealed front and the last one stays."""
        limits = RetentionLimits(max_age_s, retention_bytes)
        gone = [removal.segment for removal in removable(segments, limits, 100.0)]
        self.assertEqual(gone, segments[: len(gone)])
        self.assertTrue(all(segment.sealed for segment in gone))
        self.assertTrue(not segments or len(gone) < len(segments))
