"""Znodes that are read once and watched."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from metatwist.client.discovery.watched_tree import WatchedTree
from metatwist.client.znodes import Key
from metatwist.coordination.errors import ConnectionLost
from tests.client.discovery.tree_case import TreeCase

PATH = "/meta/brokers/x"


class WatchedTreeTests(TreeCase):
    """Reads, what they share, and what they are told."""

    def setUp(self) -> None:
        super().setUp()
        self.changed: list[Key] = []
        self.nodes = WatchedTree(self.clock, self.counting, self.changed.append)

    def data(self) -> Deferred[Any]:
        """Ask for the data of /meta/brokers/x."""
        return Deferred.fromCoroutine(self.nodes.data(PATH))

    def test_shared(self) -> None:
        """Whoever asks during a read gets its answer; one who is cancelled spoils it
        for nobody."""
        self.put("x", b"1")
        self.counting.held = held = []
        first, second = self.data(), self.data()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.assertEqual(len(held), 1)
        held[0].callback(None)
        self.assertEqual(self.successResultOf(second), b"1")

    def test_shared_failure(self) -> None:
        """A failure is everybody's, and is not kept."""
        self.put("x", b"1")
        self.counting.held = held = []
        asked = [self.data(), self.data()]
        held[0].errback(ConnectionLost())
        for one in asked:
            self.failureResultOf(one, ConnectionLost)
        self.counting.held = None
        self.assertEqual(self.successResultOf(self.data()), b"1")

    def test_came_meanwhile(self) -> None:
        """A node that comes between two requests of one read is told of at once."""
        self.counting.held = held = []
        asked = self.data()
        held[0].callback(None)
        self.put("x", b"1")
        held[1].callback(None)
        self.assertIsNone(self.successResultOf(asked))
        self.assertEqual(self.changed, [(PATH, False)])
        self.counting.held = None
        self.assertEqual(self.successResultOf(self.data()), b"1")

    def test_absent_then_there(self) -> None:
        """The coming of a node is told of, and its parents' absence does not matter."""
        self.assertIsNone(self.successResultOf(self.data()))
        self.put("x", b"1")
        self.clock.advance(0)
        self.assertEqual(self.changed, [(PATH, False)])

    def test_closed(self) -> None:
        """What is read after the end leaves no watch, and nothing is told."""
        self.put("x", b"1")
        self.successResultOf(self.data())
        self.counting.held = held = []
        self.clock.advance(100)
        asked = self.data()
        self.nodes.close()
        held[0].callback(None)
        self.successResultOf(asked)
        self.put("x", b"2")
        self.clock.advance(0)
        self.assertEqual((self.changed, len(self.own.watching)), ([], 0))
