"""The znode tree: rules that one example shows (spec layout 7.3)."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded.paths import check_path
from metatwist.coordination.embedded.store import StoredNode
from metatwist.coordination.embedded.tree import Tree
from metatwist.coordination.errors import (
    BadArguments,
    BadVersion,
    InvalidAcl,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotAuthorized,
    NotEmpty,
    TransactionFailed,
)
from metatwist.coordination.interface import EventKind
from tests.coordination.tree_model import Person

EPHEMERAL, SEQUENCE = 1, 2
BAD_PATHS = (
    "",
    "a",
    "a/b",
    "//",
    "/a/",
    "/a//b",
    "//a",
    "/.",
    "/..",
    "/a/./b",
    "/a/../b",
    "/a\0",
    "/a\n",
    "/\x1f",
    "/\x7f",
    "/\x9f",
    "/\ue000",
    "/\ufff0",
    "/\U0001f600",
)
GOOD_PATHS = ("/", "/a", "/a/b", "/...", "/.a", "/a b", "/é", "/中文", "/%2F", "/a:b@c")


class PathTests(SynchronousTestCase):
    """What may be a path."""

    def test_bad(self) -> None:
        """ZooKeeper's clients refuse these, and so does the tree."""
        for path in BAD_PATHS:
            with self.assertRaises(BadArguments, msg=repr(path)):
                check_path(path)

    def test_good(self) -> None:
        """Any other name is one."""
        for path in GOOD_PATHS:
            self.assertEqual(check_path(path), path)


class TreeCase(SynchronousTestCase):
    """A tree at a known time, and who uses it."""

    def setUp(self) -> None:
        self.now_ms = 5000
        self.recorded: list[tuple[str, StoredNode | None]] = []
        self.tree = self.new_tree()
        self.ann = Person(11, ("digest", "ann:x"))
        self.bob = Person(22, ("digest", "bob:y"))

    def new_tree(self, *stored: StoredNode, zxid: int = 0) -> Tree:
        """Another tree."""
        return Tree(
            lambda: self.now_ms,
            lambda path, node: self.recorded.append((path, node)),
            stored,
            zxid,
        )

    def make(self, path: str, data: bytes | None = b"", flags: int = 0) -> str:
        """Create as Ann."""
        return self.tree.create(self.ann, path, data, flags=flags)


class TreeTests(TreeCase):
    """Creates, sets and deletes."""

    def test_paths_are_checked(self) -> None:
        """No verb takes what is no path."""
        for path in BAD_PATHS:
            for call, values in (
                (self.tree.create, (self.ann, path, b"")),
                (self.tree.delete, (self.ann, path)),
                (self.tree.set_data, (self.ann, path, b"")),
                (self.tree.find, (path,)),
                (self.tree.check, (self.ann, path, -1)),
            ):
                self.assertRaises(BadArguments, call, *values)

    def test_fresh_tree(self) -> None:
        """A fresh tree has the nodes of every ZooKeeper, with its stats."""
        paths = ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]
        self.assertEqual(list(self.tree.nodes), paths)
        root = self.tree.nodes["/"]
        self.assertEqual((root.data, root.cversion), (b"", -1))
        self.assertEqual(self.tree.nodes["/zookeeper"].cversion, -2)

    def test_nodes_of_the_system(self) -> None:
        """Those nodes are never deleted, and are created by nobody."""
        for path in list(self.tree.nodes):
            self.assertRaises(BadArguments, self.tree.delete, self.ann, path)
            self.assertRaises(NodeExists, self.make, path)
        self.assertEqual(self.tree.zxid, 0)

    def test_sequence_in_the_root(self) -> None:
        """A sequence node without a prefix is possible everywhere, the root as well."""
        self.assertEqual(self.make("/", flags=SEQUENCE), "/0000000000")
        self.make("/q")
        self.assertEqual(self.make("/q/", flags=SEQUENCE), "/q/0000000000")
        self.assertEqual(self.make("/q/..", flags=SEQUENCE), "/q/..0000000001")

    def test_sequence_counts_creates(self) -> None:
        """The number is of all children ever created; deletions, sets and refusals
        leave no gap and never give one out twice."""
        self.make("/q")
        self.make("/q/a")
        self.tree.delete(self.ann, "/q/a")
        self.tree.set_data(self.ann, "/q", b"x")
        self.assertRaises(NoNode, self.tree.delete, self.ann, "/q/a")
        self.assertEqual(self.make("/q/n-", flags=SEQUENCE), "/q/n-0000000001")
        self.tree.delete(self.ann, "/q/n-0000000001")
        self.assertEqual(self.make("/q/n-", flags=3), "/q/n-0000000002")

    def test_sequence_at_its_end(self) -> None:
        """After the largest number comes zero; the cversion overflows as in Java."""
        most = 0x7FFFFFFF
        node = StoredNode(
            "/q", b"", ((31, "world", "anyone"),), 1, 1, 0, 0, 0, 0, 1, most
        )
        self.tree = self.new_tree(node)
        self.assertEqual(self.tree.nodes["/q"].cversion, -2)
        self.assertEqual(self.make("/q/n", flags=SEQUENCE), "/q/n2147483647")
        self.assertEqual(self.make("/q/n", flags=SEQUENCE), "/q/n0000000000")

    def test_taken_sequence_name(self) -> None:
        """A sequence name that is there already is refused."""
        self.make("/q")
        self.make("/q/n-0000000001")
        self.assertRaises(NodeExists, self.make, "/q/n-", b"", SEQUENCE)

    def test_ephemerals_have_no_children(self) -> None:
        """Nothing is created below an ephemeral node, not even an ephemeral one."""
        self.make("/e", flags=EPHEMERAL)
        for flags in (0, EPHEMERAL, SEQUENCE, EPHEMERAL | SEQUENCE):
            self.assertRaises(NoChildrenForEphemerals, self.make, "/e/x", b"", flags)

    def test_version_before_emptiness(self) -> None:
        """A wrong version is told before children are."""
        self.make("/a")
        self.make("/a/b")
        self.assertRaises(BadVersion, self.tree.delete, self.ann, "/a", 7)
        self.assertRaises(NotEmpty, self.tree.delete, self.ann, "/a", 0)

    def test_versions_at_their_end(self) -> None:
        """The version after the largest is the least, and -1, which stands for any, is
        left out."""
        self.make("/a")
        node = self.tree.nodes["/a"]
        node.version = 0x7FFFFFFF
        self.tree.set_data(self.ann, "/a", b"")
        self.assertEqual(node.version, -0x80000000)
        node.version = -2
        self.tree.set_data(self.ann, "/a", b"")
        self.assertEqual(node.version, 0)

    def test_session_end_is_one_step(self) -> None:
        """All ephemerals of a session go under one zxid, and others' stay."""
        for name in "abc":
            self.make(f"/{name}", flags=EPHEMERAL)
        self.tree.create(self.bob, "/other", b"", flags=EPHEMERAL)
        before = self.tree.zxid
        self.tree.remove_all(self.ann.ephemerals)
        self.assertEqual(self.tree.zxid, before + 1)
        self.assertEqual(self.tree.nodes["/"].pzxid, before + 1)
        self.assertEqual(list(self.tree.nodes["/"].children), ["zookeeper", "other"])
        self.assertEqual(self.ann.ephemerals, {})

    def test_another_may_delete_an_ephemeral(self) -> None:
        """An ephemeral that somebody else deletes is no longer its owner's."""
        self.make("/e", flags=EPHEMERAL)
        self.tree.delete(self.bob, "/e")
        self.tree.create(self.bob, "/e", b"", flags=EPHEMERAL)
        self.tree.remove_all(self.ann.ephemerals)
        self.assertIn("/e", self.tree.nodes)


class AccessTests(TreeCase):
    """ACLs on nodes, in the order in which a real server checks."""

    def guarded(self, path: str, permissions: int) -> None:
        """A node on which Ann has all permissions, and others these."""
        acl = [(31, "digest", "ann:x"), (permissions, "world", "anyone")]
        self.tree.create(self.ann, path, b"", acl)

    def test_permissions(self) -> None:
        """Each verb needs its permission; exists needs none."""
        self.guarded("/g", 0)
        self.make("/g/kid")
        for call in (
            lambda who: self.tree.read(who, "/g"),
            lambda who: self.tree.check(who, "/g", -1),
            lambda who: self.tree.set_data(who, "/g", b""),
            lambda who: self.tree.create(who, "/g/new", b""),
            lambda who: self.tree.delete(who, "/g/kid"),
            lambda who: self.tree.set_acl(who, "/g", [(31, "world", "anyone")]),
        ):
            self.assertRaises(NotAuthorized, call, self.bob)
        for call in (
            lambda who: self.tree.read(who, "/g"),
            lambda who: self.tree.set_data(who, "/g", b""),
            lambda who: self.tree.create(who, "/g/new", b""),
            lambda who: self.tree.delete(who, "/g/kid"),
            lambda who: self.tree.set_acl(who, "/g", [(31, "world", "anyone")]),
        ):
            call(self.ann)
        self.tree.find("/g")

    def test_parents_decide(self) -> None:
        """To create and delete is the parent's affair, whatever the child says."""
        self.make("/p")
        self.guarded("/p/g", 0)
        self.tree.delete(self.bob, "/p/g")

    def test_names_are_hidden(self) -> None:
        """Who may not delete learns nothing of what is there."""
        self.guarded("/g", 1)
        self.make("/g/kid")
        for path in ("/g/kid", "/g/none"):
            self.assertRaises(NotAuthorized, self.tree.delete, self.bob, path, 9)

    def test_invalid_acl_comes_first(self) -> None:
        """An invalid ACL is told before anything else about the node."""
        bad: Any = [(31, "nope", "x")]
        self.assertRaises(InvalidAcl, self.tree.create, self.ann, "/no/a", b"", bad)
        self.assertRaises(InvalidAcl, self.tree.set_acl, self.ann, "/no", bad)
        self.make("/a")
        self.assertRaises(InvalidAcl, self.tree.create, self.ann, "/a", b"", bad)

    def test_set_acl(self) -> None:
        """A new ACL raises the aversion and nothing else, and is recorded."""
        self.make("/a")
        before = self.tree.nodes["/a"].stat
        self.assertRaises(
            BadVersion, self.tree.set_acl, self.ann, "/a", [(1, "world", "anyone")], 3
        )
        node = self.tree.set_acl(self.ann, "/a", [(1, "world", "anyone")], 0)
        self.assertEqual((node.aversion, node.version), (1, 0))
        self.assertEqual((node.mzxid, node.pzxid), (before.mzxid, before.pzxid))
        stored = self.recorded[-1][1]
        assert stored is not None
        self.assertEqual((stored.acl, stored.aversion), (node.acl, 1))


class Ear:
    """Hears events, and how much was recorded at each."""

    def __init__(self, case: TreeCase) -> None:
        self.heard: list[tuple[EventKind, str]] = []
        self.recorded: list[list[str]] = []
        self._case = case

    def notify(self, kind: EventKind, path: str) -> None:
        self.heard.append((kind, path))
        self.recorded.append([path for path, _ in self._case.recorded])


class TransactionTests(TreeCase):
    """What the model cannot see."""

    def test_events(self) -> None:
        """Watches fire once all has succeeded, in the order of the operations, each
        after its change was recorded."""
        self.make("/d")
        ear = Ear(self)
        self.tree.watches.watch_data("/d", ear)
        self.tree.watches.watch_data("/c", ear)
        self.tree.watches.watch_children("/", ear)
        self.recorded.clear()
        self.tree.transaction(
            [
                lambda: self.make("/c"),
                lambda: self.tree.set_data(self.ann, "/d", b"1"),
                lambda: self.assertEqual(ear.heard, []),
                lambda: self.tree.delete(self.ann, "/c"),
            ]
        )
        created, children, changed = (
            (EventKind.CREATED, "/c"),
            (EventKind.CHILDREN, "/"),
            (EventKind.CHANGED, "/d"),
        )
        self.assertEqual(ear.heard, [created, children, changed])
        self.assertEqual(ear.recorded[0], ["/c", "/"])
        self.assertEqual(ear.recorded[2], ["/c", "/", "/d"])

    def test_last_state_is_recorded(self) -> None:
        """Of a node that comes and goes within a transaction nothing is left; one that
        becomes persistent is recorded with what it has at the end."""
        self.make("/e", flags=EPHEMERAL)
        self.recorded.clear()
        self.tree.transaction(
            [
                lambda: self.make("/brief"),
                lambda: self.tree.delete(self.ann, "/brief"),
                lambda: self.tree.delete(self.ann, "/e"),
                lambda: self.make("/e", b"1"),
                lambda: self.tree.set_data(self.ann, "/e", b"2"),
            ]
        )
        last = dict(self.recorded)
        self.assertIsNone(last["/brief"])
        stored = last["/e"]
        assert stored is not None
        self.assertEqual((stored.data, stored.version), (b"2", 1))

    def test_persistent_becomes_ephemeral(self) -> None:
        """A persistent node in whose place an ephemeral comes is recorded as gone."""
        self.make("/a")
        self.tree.transaction(
            [
                lambda: self.tree.delete(self.ann, "/a"),
                lambda: self.make("/a", flags=EPHEMERAL),
            ]
        )
        self.assertIsNone(dict(self.recorded)["/a"])

    def test_ephemerals_stay_their_owners(self) -> None:
        """An ephemeral whose deletion did not take effect is its owner's still, and one
        that was not created is nobody's."""
        self.make("/e", flags=EPHEMERAL)
        self.assertRaises(
            TransactionFailed,
            self.tree.transaction,
            [
                lambda: self.tree.delete(self.bob, "/e"),
                lambda: self.make("/f", flags=EPHEMERAL),
                lambda: self.make("/no/a"),
            ],
        )
        self.assertEqual(self.ann.ephemerals, {"/e": None})

    def test_usable_after_a_failure(self) -> None:
        """After a transaction that failed single writes count as ever."""
        self.assertRaises(
            TransactionFailed,
            self.tree.transaction,
            [lambda: self.make("/a"), lambda: self.make("/no/a")],
        )
        self.make("/a")
        self.assertEqual(self.tree.zxid, 1)
        self.assertEqual(self.tree.nodes["/a"].czxid, 1)


class RecordTests(TreeCase):
    """What is told to the journal."""

    def test_ephemerals_are_not_recorded(self) -> None:
        """Of an ephemeral only the parent is recorded, since its counters rise."""
        self.make("/p")
        self.recorded.clear()
        self.make("/p/e", flags=EPHEMERAL)
        self.tree.set_data(self.ann, "/p/e", b"x")
        self.tree.delete(self.ann, "/p/e")
        self.assertEqual([path for path, _ in self.recorded], ["/p", "/p"])

    def test_refused_writes_are_not_recorded(self) -> None:
        """A write that fails records nothing and takes no zxid."""
        self.make("/a")
        self.recorded.clear()
        for call in (
            lambda: self.make("/a"),
            lambda: self.make("/no/a"),
            lambda: self.tree.set_data(self.ann, "/a", b"", 9),
            lambda: self.tree.delete(self.ann, "/no"),
        ):
            self.assertRaises((NodeExists, NoNode, BadVersion), call)
        self.assertEqual((self.recorded, self.tree.zxid), ([], 1))

    def test_zxids_go_on(self) -> None:
        """A loaded tree counts on from the zxid it is given."""
        self.tree = self.new_tree(zxid=7 << 32)
        self.make("/a")
        self.assertEqual(self.tree.nodes["/a"].czxid, (7 << 32) + 1)
