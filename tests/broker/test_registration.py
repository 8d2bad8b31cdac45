"""What a master registers, as pure functions (spec layout 3.3, 9.1)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.registration import (
    NOTHING,
    Names,
    Offer,
    Stored,
    offers,
    stored_topics,
)
from metatwist.broker.settings import BrokerSettings
from tests.support.broker_parts import INI, BrokerParts, put

ZOOKEEPER = "[zookeeper]\nzk.zkRoot=/x/y\n"


class RegistrationCase(SynchronousTestCase):
    """Settings from the text of a file, with 3 partitions for each topic."""

    def settings(self, topics: str) -> BrokerSettings:
        """The settings with these topic sections."""
        return BrokerParts(self, INI.partition("[topic")[0] + topics).settings

    def offers(self, topics: str, **stored: Stored) -> dict[str, Offer]:
        """The offers, all names being fit."""
        found, unfit = offers(self.settings(topics), stored)
        self.assertEqual(unfit, {})
        return found

    def offer(self, keys: str = "", stored: Stored | None = None) -> Offer:
        """The offer of a topic `t` with these keys in its section."""
        has: Mapping[str, Stored] = {} if stored is None else {"t": stored}
        return self.offers(f"[topic=t]\n{keys}", **has)["t"]


class OfferTests(RegistrationCase):
    """How many partitions each tree shows."""

    def test_configured(self) -> None:
        """A configured topic is in all trees, without any data too."""
        self.assertEqual(self.offer(), Offer(3, 3, 3))
        self.assertEqual(self.offer("numPartitions=7\n"), Offer(7, 7, 7))

    def test_not_published(self) -> None:
        """acceptPublish=false leaves out the producers' tree, never the old one."""
        self.assertEqual(self.offer("acceptPublish=false\n"), Offer(3, None, 3))

    def test_not_subscribed(self) -> None:
        """acceptSubscribe=false leaves out the consumers' tree, never the old one."""
        found = self.offer("acceptSubscribe=false\n", Stored(9, False))
        self.assertEqual(found, Offer(3, 3, None))

    def test_stored_beyond(self) -> None:
        """Consumers see all that is stored, producers what is configured."""
        self.assertEqual(self.offer(stored=Stored(9, False)), Offer(3, 3, 9))
        self.assertEqual(self.offer(stored=Stored(2, False)), Offer(3, 3, 3))

    def test_pattern(self) -> None:
        """The text of a wildcard section is registered, and each topic it lets in."""
        found = self.offers(
            "[topic=log-*]\nnumPartitions=2\n", **{"log-a": Stored(1, False)}
        )
        self.assertEqual(found, {"log-*": Offer(2, 2, 2), "log-a": Offer(2, 2, 2)})

    def test_removed(self) -> None:
        """A topic without a section is there for consumers, as far as it is stored."""
        found = self.offers("[topic=t]\n", gone=Stored(5, False))
        self.assertEqual(found["gone"], Offer(None, None, 5))

    def test_removed_and_hidden(self) -> None:
        """Where [system] hides topics from consumers, a removed one is nowhere."""
        text = "[system]\nacceptSubscribe=false\n[topic=t]\n"
        self.assertEqual(self.offers(text, gone=Stored(5, False))["gone"], NOTHING)

    def test_failed(self) -> None:
        """With a failed partition a topic takes no puts but is read (spec S5, B2)."""
        self.assertEqual(self.offer(stored=Stored(4, True)), Offer(None, None, 4))

    def test_unfit_name(self) -> None:
        """A name that no znode can have is left out, with the reason."""
        private = "a\ue000b"
        settings = self.settings("[topic=a/b*]\n[topic=t]\n")
        found, unfit = offers(settings, {private: Stored(1, False)})
        self.assertEqual(list(found), ["t"])
        self.assertEqual(unfit["a/b*"], "contains a /")
        self.assertIn("U+E000", unfit[private])


class StoredTests(SynchronousTestCase):
    """What is stored, from the catalog."""

    def test_partitions(self) -> None:
        """The highest partition counts, and a failure of any one."""
        parts = BrokerParts(self)
        parts.connect().ask(put(b"a", partition=1), put(b"b", topic="quiet"))
        self.assertEqual(
            stored_topics(parts.topics),
            {"test": Stored(2, False), "quiet": Stored(1, False)},
        )
        parts.catalog.logs["test", 1].failure = "fsync failed"
        self.assertEqual(stored_topics(parts.topics)["test"], Stored(2, True))

    def test_not_loaded(self) -> None:
        """A partition that could not be loaded counts, and is a failure."""
        parts = BrokerParts(self)
        parts.catalog.failed["old", 6] = "not a directory"
        self.assertEqual(stored_topics(parts.topics)["old"], Stored(7, True))

    def test_closed(self) -> None:
        """A partition that an operator closed changes nothing."""
        parts = BrokerParts(self)
        before = offers(parts.settings, stored_topics(parts.topics))
        parts.topics.closed |= {("test", 0), ("test", 1), ("test", 2)}
        self.assertEqual(offers(parts.settings, stored_topics(parts.topics)), before)


class NodeTests(RegistrationCase):
    """Paths, values and order."""

    def test_topic(self) -> None:
        """A topic's nodes come for producers before consumers, each with its value."""
        settings = self.settings("[topic=t]\n")
        both = b'{"numParts":3,"broker":"5-m"}'
        offer = offers(settings, {})[0]["t"]
        self.assertEqual(
            list(Names.of(settings).topic_nodes("t", offer).items()),
            [
                ("/meta/brokers/topics/t/5-m", b"3"),
                ("/meta/brokers/topics-pub/t/5-m", both),
                ("/meta/brokers/topics-sub/t/5-m", both),
            ],
        )

    def test_left_out(self) -> None:
        """What is not offered is no node."""
        settings = self.settings("[topic=t]\n")
        offer = offers(settings, {"gone": Stored(2, False)})[0]["gone"]
        nodes = Names.of(settings).topic_nodes("gone", offer)
        self.assertEqual(
            [path for path, data in nodes.items() if data is not None],
            ["/meta/brokers/topics-sub/gone/5-m"],
        )

    def test_root(self) -> None:
        """The root is that of [zookeeper]."""
        settings = self.settings(f"[topic=t]\n{ZOOKEEPER}")
        self.assertEqual(Names.of(settings).master, "/x/y/brokers/ids/5/master")
        other = evolve(settings, broker_id=7)
        self.assertEqual(Names.of(other).broker, "/x/y/brokers/ids/7")
