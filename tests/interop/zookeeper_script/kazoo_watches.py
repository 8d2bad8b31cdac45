"""Scenes by kazoo: which change fires which watch, once and in order."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import READ_ACL_UNSAFE

from .scene import Scene, WatchLog

Change = Callable[[KazooClient, str], object]
WATCHES = ("exists", "get", "get_children", "none yet")
CHANGES: dict[str, Change] = {
    "create": lambda client, path: client.create(path),
    "set": lambda client, path: client.set(path, b"changed"),
    "set to the same": lambda client, path: client.set(path, client.get(path)[0]),
    "set with a wrong version": lambda client, path: client.set(path, b"", 99),
    "delete": lambda client, path: client.delete(path),
    "delete with a wrong version": lambda client, path: client.delete(path, 99),
    "create a child": lambda client, path: client.create(f"{path}/new"),
    "set a child": lambda client, path: client.set(f"{path}/kid", b"1"),
    "delete a child": lambda client, path: client.delete(f"{path}/kid"),
    "create a grandchild": lambda client, path: client.create(f"{path}/kid/new"),
    "set the acl": lambda client, path: client.set_acls(path, READ_ACL_UNSAFE),
}


def firing(scene: Scene) -> None:
    """Each watch against each change, made twice: what fires, and that once."""
    client, changer = scene.kazoo("A"), scene.kazoo("B")
    log = WatchLog(client, scene.fence)
    for kind in WATCHES:
        for number, (words, change) in enumerate(CHANGES.items()):
            path = f"{scene.root}/{kind.replace(' ', '-')}-{number}"
            if kind != "none yet":
                changer.create(path)
                if words != "delete":
                    changer.create(f"{path}/kid")
            _watch(client, log, kind, path)
            events = _twice(changer, change, path)
            events += log.drain(scene.ledger)
            scene.note(f"{kind}, {words}", " | ".join(events))


def _watch(client: KazooClient, log: WatchLog, kind: str, path: str) -> None:
    if kind == "get":
        client.get(path, watch=log.watch("get"))
    elif kind == "get_children":
        client.get_children(path, watch=log.watch("list"))
    else:
        client.exists(path, watch=log.watch("exists"))


def _twice(client: KazooClient, change: Change, path: str) -> list[str]:
    """What refused the change, made twice."""
    refused = []
    for _ in range(2):
        try:
            change(client, path)
        except KazooException as error:
            refused.append(type(error).__name__)
    return refused


def separate_tables(scene: Scene) -> None:
    """Data and child watches of one node fire apart; deletion fires all."""
    client, changer = scene.kazoo("A"), scene.kazoo("B")
    log = WatchLog(client, scene.fence)
    path = f"{scene.root}/n"

    def watched(words: str, change: Change) -> None:
        change(changer, path)
        events = sorted(log.drain(scene.ledger))
        scene.note(words, " | ".join(events))

    def watch_all() -> None:
        for kind in ("exists", "get", "get_children"):
            _watch(client, log, kind, path)

    changer.create(path)
    watch_all()
    watched("child created", lambda one, node: one.create(f"{node}/a"))
    watched("child created, list spent", lambda one, node: one.create(f"{node}/b"))
    watched("set", lambda one, node: one.set(node, b"1"))
    watched("set, data spent", lambda one, node: one.set(node, b"2"))
    watch_all()
    watched("deleted with children", lambda one, node: one.delete(node, recursive=True))
    watched("made anew", lambda one, node: one.create(node))
    watch_all()
    watched("set again", lambda one, node: one.set(node, b"3"))
    watched("deleted, data spent", lambda one, node: one.delete(node))
    _watch(client, log, "exists", path)
    watched("created", lambda one, node: one.create(node))
    watched("set after created", lambda one, node: one.set(node, b"4"))


def failed_reads(scene: Scene) -> None:
    """A read that fails leaves no watch; exists does."""
    client, changer = scene.kazoo("A"), scene.kazoo("B")
    log = WatchLog(client, scene.fence)
    path = f"{scene.root}/n"
    scene.ask("get", client.get, path, watch=log.watch("get"))
    scene.ask("list", client.get_children, path, watch=log.watch("list"))
    changer.create(path)
    scene.note("created", " | ".join(log.drain(scene.ledger)))
    changer.delete(path)
    scene.ask("exists", client.exists, path, watch=log.watch("exists"))
    changer.create(path)
    scene.note("created again", " | ".join(log.drain(scene.ledger)))


def own_changes(scene: Scene) -> None:
    """A client's own changes fire its watches, those it makes from a watch too."""
    client = scene.kazoo("A")
    log = WatchLog(client, scene.fence)
    path = f"{scene.root}/n"
    client.exists(path, watch=log.watch("exists"))
    client.get_children(scene.root, watch=log.watch("list"))
    client.create(path)
    scene.note("created", " | ".join(log.drain(scene.ledger)))
    client.get(path, watch=log.watch("get"))
    client.set(path, b"1")
    scene.note("set", " | ".join(log.drain(scene.ledger)))
    client.get_children(path, watch=log.watch("list"))
    client.get_children(scene.root, watch=log.watch("list of the parent"))
    client.delete(path)
    scene.note("deleted", " | ".join(log.drain(scene.ledger)))


def in_order(scene: Scene) -> None:
    """Events come in the order of the changes."""
    client, changer = scene.kazoo("A"), scene.kazoo("B")
    log = WatchLog(client, scene.fence)
    paths = [f"{scene.root}/{number}" for number in range(30)]
    for number, path in enumerate(paths):
        if number % 3:
            changer.create(path)
        client.exists(path, watch=log.watch("exists"))
    for number, path in reversed(list(enumerate(paths))):
        if number % 3 == 0:
            changer.create(path)
        elif number % 3 == 1:
            changer.set(path, b"1")
        else:
            changer.delete(path)
    scene.note("thirty changes", " | ".join(log.drain(scene.ledger)))


def ephemerals_go(scene: Scene) -> None:
    """The end of a session fires the watches of its ephemerals and their parents."""
    client, owner = scene.kazoo("A"), scene.kazoo("B")
    log = WatchLog(client, scene.fence)
    for name in "abc":
        owner.create(f"{scene.root}/{name}", ephemeral=True)
        client.get(f"{scene.root}/{name}", watch=log.watch("get"))
    client.get_children(scene.root, watch=log.watch("list"))
    owner.stop()
    scene.ask("children at once", client.get_children, scene.root)
    scene.note("events, sorted", " | ".join(sorted(log.drain(scene.ledger))))
    scene.ask("the parent", client.exists, scene.root)


SCENES = (
    firing,
    separate_tables,
    failed_reads,
    own_changes,
    in_order,
    ephemerals_go,
)
