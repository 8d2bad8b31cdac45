"""Who gets which partitions: vectors of the original, and what holds for all inputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.group.shares import (
    consistent_share,
    default_share,
    ring_hash,
    share_by,
)
from metatwist.client.group.view import GroupPicture
from metatwist.client.settings import Strategy
from metatwist.coordination.names import PartitionName, consumer_order, string_order

Share = Callable[..., tuple[PartitionName, ...]]
FIFTEEN = [PartitionName(0, n) for n in range(12)]
FIFTEEN += [PartitionName(1, n) for n in range(3)]
FOUR = ["g1_a", "g1_b", "g1_c", "g1_d"]
TEN = [PartitionName(b, n) for b in (0, 1) for n in range(5)]
THREE = [f"grp_10.0.0.{n + 1}-77-uuid{n}" for n in range(3)]

partition_names = st.builds(PartitionName, st.integers(0, 30), st.integers(0, 30))
partition_sets = st.frozensets(partition_names, max_size=40)
member_names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Co"], exclude_characters="/"),
    min_size=1,
    max_size=12,
)
member_sets = st.frozensets(member_names, min_size=1, max_size=12)


def shares(share: Share, members: list[str], parts: list[PartitionName]) -> list[str]:
    return [" ".join(map(str, share(me, members, parts))) for me in members]


class VectorTests(SynchronousTestCase):
    """The vectors of spec client 10.4."""

    def test_ring_hash(self) -> None:
        """Texts lie on the ring where the original puts them."""
        found = [ring_hash(text) for text in ("0-0", "0-1", "1-0", "g1_a-0")]
        self.assertEqual(found, [53638855, 556329922, 1097442028, 1825934559])

    def test_default(self) -> None:
        """The default shares are the original's."""
        self.assertEqual(
            shares(default_share, FOUR, FIFTEEN),
            ["0-0 0-1 0-10 0-11", "0-2 0-3 0-4 0-5", "0-6 0-7 0-8 0-9", "1-0 1-1 1-2"],
        )
        self.assertEqual(
            shares(default_share, THREE, TEN),
            ["0-0 0-1 0-2 0-3", "0-4 1-0 1-1", "1-2 1-3 1-4"],
        )

    def test_consistent(self) -> None:
        """The shares of the ring are the original's."""
        self.assertEqual(
            shares(consistent_share, FOUR, FIFTEEN),
            [
                "0-0 0-7 0-8 1-1",
                "0-10 0-2 0-5 0-6 0-9",
                "0-1 0-3 0-4 1-0",
                "0-11 1-2",
            ],
        )
        self.assertEqual(
            shares(consistent_share, THREE, TEN),
            ["0-2 1-2", "0-0 0-1 0-3 0-4 1-0", "1-1 1-3 1-4"],
        )

    def test_strategies(self) -> None:
        """Each strategy has its arithmetic."""
        self.assertIs(share_by(Strategy.DEFAULT), default_share)
        self.assertIs(share_by(Strategy.CONSISTENT_HASH), consistent_share)

    def test_nobody(self) -> None:
        """Who is no member gets nothing, and nobody gets anything of nothing."""
        for share in (default_share, consistent_share):
            self.assertEqual(share("x", FOUR, FIFTEEN), ())
            self.assertEqual(share("x", [], FIFTEEN), ())
            self.assertEqual(share("g1_a", FOUR, []), ())

    def test_string_order(self) -> None:
        """Members are sorted as Java does, by UTF-16: U+1F600 is before U+FF5E."""
        low, high = "\U0001f600", "\uff5e"
        self.assertEqual(default_share(low, [high, low], TEN[:1]), (TEN[0],))
        self.assertEqual(default_share(high, [high, low], TEN[:1]), ())

    def test_more_members_than_partitions(self) -> None:
        """Then the last ones get nothing."""
        self.assertEqual(
            shares(default_share, FOUR, FIFTEEN[:2]), ["0-0", "0-1", "", ""]
        )


class PropertyTests(SynchronousTestCase):
    """What holds whatever there is."""

    @given(member_sets, partition_sets)
    def test_complete_and_disjoint(
        self, members: frozenset[str], partitions: frozenset[PartitionName]
    ) -> None:
        """Each partition has exactly one owner."""
        for share in (default_share, consistent_share):
            all_shares = [share(me, members, partitions) for me in members]
            every = list(chain.from_iterable(all_shares))
            self.assertEqual(consumer_order(every), consumer_order(partitions))

    @given(member_sets, partition_sets)
    def test_even(
        self, members: frozenset[str], partitions: frozenset[PartitionName]
    ) -> None:
        """By default sizes differ by one at most, and slices follow each other."""
        found = [default_share(me, members, partitions) for me in string_order(members)]
        sizes = [len(one) for one in found]
        self.assertLessEqual(max(sizes) - min(sizes), 1)
        self.assertEqual(list(chain.from_iterable(found)), consumer_order(partitions))

    @given(member_sets, partition_sets, st.randoms())
    def test_order_does_not_matter(
        self, members: frozenset[str], partitions: frozenset[PartitionName], rng: object
    ) -> None:
        """Any order of members and partitions, and repetitions, give the same."""
        mixed = [*members, *members]
        named = [*partitions]
        rng.shuffle(mixed)  # type: ignore[attr-defined]
        rng.shuffle(named)  # type: ignore[attr-defined]
        for share in (default_share, consistent_share):
            for me in members:
                self.assertEqual(
                    share(me, mixed, named), share(me, members, partitions)
                )

    @given(member_sets, member_names, partition_sets)
    def test_consistent(
        self,
        members: frozenset[str],
        leaving: str,
        partitions: frozenset[PartitionName],
    ) -> None:
        """On the ring a member that leaves moves only its own partitions."""
        staying = members - {leaving}
        for me in staying:
            before = consistent_share(me, members | {leaving}, partitions)
            after = consistent_share(me, staying, partitions)
            self.assertLessEqual(set(before), set(after))

    @given(
        st.dictionaries(
            member_names,
            st.frozensets(st.sampled_from("abc"), max_size=3),
            min_size=1,
            max_size=8,
        ),
        st.fixed_dictionaries(dict.fromkeys("abc", partition_sets)),
        st.sampled_from(Strategy),
    )
    def test_subscriptions(
        self,
        members: dict[str, frozenset[str]],
        partitions: dict[str, frozenset[PartitionName]],
        strategy: Strategy,
    ) -> None:
        """Each topic is shared among its subscribers alone, completely."""
        owners: dict[object, list[str]] = {}
        for me, topics in members.items():
            mine = {topic: partitions[topic] for topic in topics}
            for one in GroupPicture(members, mine).share(me, strategy):
                self.assertIn(one.topic, topics)
                owners.setdefault(one, []).append(me)
        self.assertEqual({len(one) for one in owners.values()} - {1}, set())
        subscribed = frozenset(chain.from_iterable(members.values()))
        count = sum(len(partitions[topic]) for topic in subscribed)
        self.assertEqual(len(owners), count)
