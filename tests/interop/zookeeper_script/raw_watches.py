"""Scenes by raw frames: watches over a broken connection, by setWatches."""

from __future__ import annotations

from . import records
from .raw_client import ConnectRequest, RawClient
from .scene import Scene

TABLES = ("data", "exist", "child")


def resumed(scene: Scene, client: RawClient) -> RawClient:
    """Drop the connection and go on with the session over another."""
    client.drop()
    session, last = client.session, client.last_zxid
    request = ConnectRequest(
        session_id=session.id, password=session.password, last_zxid=last
    )
    again = scene.connection()
    again.connect(request)
    again.last_zxid = last
    return again


def _set_watches(client: RawClient, table: str, path: str) -> str:
    """Send setWatches for one path; what arrived up to its reply."""
    tables = [[path] if table == name else [] for name in TABLES]
    body = records.set_watches(client.last_zxid, tables[0], tables[1], tables[2])
    reply = client.call(records.SET_WATCHES, body, records.SET_WATCHES_XID)
    return f"{' | '.join(client.take_arrived())} ({reply.xid})"


def missed(scene: Scene) -> None:
    """Each table of setWatches against what happened while nobody was connected."""
    other, root = scene.raw("B"), scene.root
    situations = (
        "nothing",
        "created",
        "set",
        "deleted",
        "child created",
        "child deleted",
        "child set",
        "deleted and made anew",
        "absent",
    )
    for table in TABLES:
        for number, situation in enumerate(situations):
            client = scene.raw("A")
            path = f"{root}/{table}-{number}"
            if situation not in ("created", "absent"):
                other.call(records.CREATE, records.create(path))
                if not situation.startswith("deleted"):
                    other.call(records.CREATE, records.create(f"{path}/kid"))
            client.call(records.SYNC, records.text(path))
            client.drop()
            _happen(other, situation, path)
            again = resumed(scene, client)
            words = f"{table}, {situation}"
            scene.note(words, _set_watches(again, table, path))
            _happen_after(other, path)
            scene.note(f"{words}, then", " | ".join(again.events()))


def _happen(other: RawClient, situation: str, path: str) -> None:
    if situation.startswith("deleted"):
        other.call(records.DELETE, records.versioned(path))
    if situation in ("created", "deleted and made anew"):
        other.call(records.CREATE, records.create(path))
    if situation == "set":
        other.call(records.SET, records.set_data(path, b"1"))
    if situation == "child created":
        other.call(records.CREATE, records.create(f"{path}/new"))
    if situation == "child deleted":
        other.call(records.DELETE, records.versioned(f"{path}/kid"))
    if situation == "child set":
        other.call(records.SET, records.set_data(f"{path}/kid", b"1"))


def _happen_after(other: RawClient, path: str) -> None:
    """Create it unless it is there, set it, add a child."""
    other.call(records.CREATE, records.create(path))
    other.call(records.SET, records.set_data(path, b"after"))
    other.call(records.CREATE, records.create(f"{path}/after"))


def forgotten(scene: Scene) -> None:
    """A server keeps no watch over a broken connection by itself."""
    client, other, root = scene.raw("A"), scene.raw("B"), scene.root
    client.call(records.CHILDREN, records.read(root, True))
    client.call(records.GET, records.read(root, True))
    again = resumed(scene, client)
    other.call(records.CREATE, records.create(f"{root}/new"))
    other.call(records.SET, records.set_data(root, b"1"))
    scene.note("events", " | ".join(again.events()))


def many(scene: Scene) -> None:
    """One setWatches for many paths: the events come before its reply."""
    client, other, root = scene.raw("A"), scene.raw("B"), scene.root
    paths = [f"{root}/{number}" for number in range(6)]
    for path in paths[:4]:
        other.call(records.CREATE, records.create(path))
    client.call(records.SYNC, records.text(root))
    client.drop()
    other.call(records.SET, records.set_data(paths[0], b"1"))
    other.call(records.DELETE, records.versioned(paths[1]))
    other.call(records.CREATE, records.create(f"{paths[2]}/kid"))
    other.call(records.CREATE, records.create(paths[4]))
    again = resumed(scene, client)
    body = records.set_watches(
        again.last_zxid, paths[:4], paths[4:], [*paths[:4], root]
    )
    xid = again.send(records.SET_WATCHES, body, 12)
    again.reply_to(xid)
    arrived = again.take_arrived()
    scene.note("the last to arrive", arrived.pop())
    scene.note("the rest, sorted", " | ".join(sorted(arrived)))
    other.call(records.SET, records.set_data(paths[3], b"1"))
    other.call(records.CREATE, records.create(paths[5]))
    scene.note("later", " | ".join(again.events()))
    other.call(records.DELETE, records.versioned(paths[3]))
    scene.note("child watch left", " | ".join(again.events()))
    empty = records.set_watches(again.last_zxid, [], [], [])
    scene.note("no paths", again.answer(records.SET_WATCHES, empty))


SCENES = (missed, forgotten, many)
