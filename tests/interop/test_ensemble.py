"""Our coordinator against a real ZooKeeper: what it answers."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import gatherResults, inlineCallbacks

from metatwist.coordination.errors import (
    BadArguments,
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotAuthorized,
    NotEmpty,
    TransactionFailed,
)
from metatwist.coordination.interface import (
    Check,
    Create,
    Delete,
    EventKind,
    NodeEvent,
    SetData,
)

from .coordinator_case import CoordinatorCase

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CREDENTIALS = ("digest", "broker:secret")


class EnsembleVerbsTest(CoordinatorCase):
    """One server, one session."""

    @inlineCallbacks
    def setUp(self) -> Any:
        """Connect."""
        super().setUp()
        self.server = self.zookeeper()
        self.server.start()
        self.tree = yield self.connected(self.server.address)

    @inlineCallbacks
    def test_nodes(self) -> Any:
        """Znodes are created, read, changed under versions and deleted."""
        tree = self.tree
        self.assertEqual("/a", (yield self.checked(tree.create("/a", b"one"))))
        data, stat = yield self.checked(tree.get("/a"))
        self.assertEqual(b"one", data)
        self.assertEqual(
            (0, 0, 3), (stat.version, stat.ephemeral_owner, stat.data_length)
        )
        changed = yield self.checked(tree.set("/a", b"three", 0))
        self.assertEqual((1, 5), (changed.version, changed.data_length))
        self.assertEqual(changed, (yield self.checked(tree.exists("/a"))))
        yield self.assertFailure(tree.set("/a", b"", 0), BadVersion)
        yield self.assertFailure(tree.delete("/a", 0), BadVersion)
        self.assertIsNone((yield self.checked(tree.sync("/a"))))
        self.assertIsNone((yield self.checked(tree.delete("/a", 1))))
        self.assertIsNone((yield self.checked(tree.exists("/a"))))

    @inlineCallbacks
    def test_errors(self) -> Any:
        """Each refusal has its own class, and names the path."""
        tree = self.tree
        yield tree.create("/dir/leaf", make_parents=True)
        yield tree.create("/gone", ephemeral=True)
        refused = [
            (tree.create("/dir"), NodeExists),
            (tree.create("/no/parent"), NoNode),
            (tree.create("/gone/child"), NoChildrenForEphemerals),
            (tree.delete("/dir"), NotEmpty),
            (tree.delete("/none"), NoNode),
            (tree.get("/none"), NoNode),
            (tree.set("/none", b""), NoNode),
            (tree.get_children("/none"), NoNode),
            (tree.get_and_watch("/none"), NoNode),
            (tree.get_children_and_watch("/none"), NoNode),
            (tree.get("none"), BadArguments),
            (tree.create("/dir/"), BadArguments),
            (tree.create("/dir/../x"), BadArguments),
        ]
        for asked, error in refused:
            failure = yield self.assertFailure(asked, error)
            self.assertIn("/" if error is not BadArguments else "", failure.subject)

    @inlineCallbacks
    def test_null_data(self) -> Any:
        """No data is null to others and reads as empty; parents have none."""
        yield self.tree.create("/x/y/z", b"", make_parents=True)
        self.assertEqual(b"", (yield self.tree.get("/x"))[0])
        yield self.tree.set("/x/y/z", None)
        _, stat = yield self.tree.get("/x/y/z")
        self.assertEqual((1, 0), (stat.version, stat.data_length))

    @inlineCallbacks
    def test_children_and_sequences(self) -> Any:
        """Children are sorted; sequence znodes get rising numbers."""
        yield self.tree.create("/s")
        made = yield gatherResults(
            [self.tree.create("/s/n-", b"", True, True) for _ in range(12)]
        )
        self.assertEqual([f"/s/n-{number:010}" for number in range(12)], made)
        self.assertEqual(
            "/s/0000000012", (yield self.tree.create("/s/", sequence=True))
        )
        names = yield self.tree.get_children("/s")
        self.assertEqual(["0000000012", *[path[3:] for path in made]], names)
        _, stat = yield self.tree.get(made[0])
        self.assertEqual(self.tree.session_id, stat.ephemeral_owner)

    @inlineCallbacks
    def test_transaction(self) -> Any:
        """A transaction does all, or names what failed and does nothing."""
        tree = self.tree
        yield tree.create("/t", b"old")
        done = yield self.checked(
            tree.transaction(
                [
                    Check("/t", 0),
                    SetData("/t", None),
                    Create("/t/a", ephemeral=True),
                    Create("/t/s-", b"x", sequence=True),
                    Delete("/t/a"),
                ]
            )
        )
        self.assertEqual([None, "/t/a", "/t/s-0000000001", None], [done[0], *done[2:]])
        self.assertEqual((1, 0), (done[1].version, done[1].data_length))
        failed = yield self.assertFailure(
            tree.transaction([Create("/t/b"), Delete("/t/none"), Create("/t/c")]),
            TransactionFailed,
        )
        self.assertEqual(1, failed.index)
        self.assertIsInstance(failed.cause, NoNode)
        self.assertEqual(["s-0000000001"], (yield tree.get_children("/t")))
        self.assertEqual([], (yield tree.transaction([])))

    @inlineCallbacks
    def test_watches(self) -> Any:
        """A watch fires once, with what happened; one cancelled does not."""
        tree = self.tree
        stat, created = yield self.checked(tree.exists_and_watch("/w"))
        self.assertIsNone(stat)
        yield tree.create("/w", b"1")
        event = yield self.until_fired(created)
        self.assertEqual(NodeEvent(EventKind.CREATED, "/w"), event)
        data, _, changed = yield tree.get_and_watch("/w")
        names, child = yield tree.get_children_and_watch("/w")
        self.assertEqual((b"1", []), (data, names))
        _, _, forgotten = yield tree.get_and_watch("/w")
        forgotten.addErrback(lambda _: None)
        forgotten.cancel()
        yield tree.create("/w/child")
        yield tree.set("/w", b"2")
        self.assertEqual(EventKind.CHILDREN, (yield self.until_fired(child)).kind)
        self.assertEqual(EventKind.CHANGED, (yield self.until_fired(changed)).kind)
        yield tree.delete("/w/child")
        _, both = yield tree.get_children_and_watch("/w")
        _, one = yield tree.exists_and_watch("/w")
        yield tree.delete("/w")
        gone = NodeEvent(EventKind.DELETED, "/w")
        self.assertEqual(gone, (yield self.until_fired(both)))
        self.assertEqual(gone, (yield self.until_fired(one)))

    @inlineCallbacks
    def test_much_at_once(self) -> Any:
        """Thousands of requests at once and values near the server's limit pass."""
        yield self.tree.create("/many")
        big = bytes(range(256)) * 3900
        yield self.tree.create("/big", big)
        made = [self.tree.create(f"/many/{n:04}", b"x" * n) for n in range(2000)]
        names = yield self.tree.get_children("/many")
        yield gatherResults(made)
        self.assertEqual([f"{n:04}" for n in range(2000)], names)
        read = yield gatherResults([self.tree.get(f"/many/{n:04}") for n in range(99)])
        self.assertEqual(list(range(99)), [len(data) for data, _ in read])
        self.assertEqual(big, (yield self.tree.get("/big"))[0])


class AccessTest(CoordinatorCase):
    """Credentials and chroots."""

    @inlineCallbacks
    def setUp(self) -> Any:
        """A server, and a stranger's session with it."""
        super().setUp()
        self.server = self.zookeeper()
        self.server.start()
        self.stranger = yield self.connected(self.server.address)

    @inlineCallbacks
    def test_creator(self) -> Any:
        """With acl creator a stranger reads all, registers in directories and commits
        offsets, but can neither change nor remove what a broker registered."""
        keys = {"credentials": CREDENTIALS, "acl": "creator"}
        broker = yield self.connected(self.server.address, **keys)
        node = "/meta/brokers/ids/0/master"
        yield broker.create(node, b"url", ephemeral=True, make_parents=True)
        offset = "/meta/consumers/g/offsets/t/0-0"
        yield broker.create(offset, b"-1-0", make_parents=True)
        yield broker.transaction([Create("/meta/x", b"", ephemeral=True)])
        stranger = self.stranger
        self.assertEqual(b"url", (yield stranger.get(node))[0])
        yield self.assertFailure(stranger.set(node, b""), NotAuthorized)
        yield self.assertFailure(stranger.delete(node), NotAuthorized)
        yield self.assertFailure(stranger.set("/meta/x", b""), NotAuthorized)
        yield stranger.create("/meta/brokers/ids/1/master", b"", True, False, True)
        yield stranger.create("/meta/consumers/g/offsets/t/0-1", b"-1-9")
        yield stranger.set(offset, b"-1-9")
        again = yield self.connected(self.server.address, **keys)
        yield again.set(node, b"new")
        yield again.delete("/meta/x")

    @inlineCallbacks
    def test_open(self) -> Any:
        """With acl open anyone may do anything, credentials or not."""
        broker = yield self.connected(self.server.address, credentials=CREDENTIALS)
        yield broker.create("/o/p", b"", make_parents=True)
        yield self.stranger.set("/o/p", b"x")
        yield self.stranger.delete("/o/p")
        yield self.stranger.delete("/o")

    @inlineCallbacks
    def test_refused_credentials(self) -> Any:
        """Credentials of an unknown scheme are refused; the problem says so, and it
        goes on trying."""
        link = self.proxy(self.server)
        refused = self.coordinator(link.address, credentials=("magic", "a:b"))
        yield self.until(
            lambda: "refused the credentials" in (refused.problem or ""), "refused"
        )
        tried = link.accepted
        yield self.until(lambda: link.accepted > tried + 1, "tries again")
        self.assertIn("magic", refused.problem)
        self.assertNotIn("a:b", refused.problem)
        self.assertEqual([], self.states[refused])

    @inlineCallbacks
    def test_chroot(self) -> Any:
        """A missing chroot is named as the problem; once it is there all paths are
        below it, those of events and transactions too."""
        inside = self.coordinator(f"{self.server.address}/app/a")
        yield self.until(lambda: "/app/a" in (inside.problem or ""), "problem")
        self.assertIn("no chroot /app/a", inside.description)
        self.assertEqual(0, inside.session_id)
        yield self.stranger.create("/app/a", make_parents=True)
        yield self.until(lambda: inside.problem is None, "chroot found")
        _, watch = yield inside.get_children_and_watch("/")
        self.assertEqual("/x", (yield inside.create("/x", b"1")))
        event = yield self.until_fired(watch)
        self.assertEqual(NodeEvent(EventKind.CHILDREN, "/"), event)
        made = yield inside.transaction([Create("/x/y"), Create("/x/z")])
        self.assertEqual(["/x/y", "/x/z"], made)
        self.assertEqual(b"1", (yield self.stranger.get("/app/a/x"))[0])
