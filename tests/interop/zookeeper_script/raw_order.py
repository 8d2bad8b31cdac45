"""Scenes by raw frames: the order of replies and events on one connection."""

from __future__ import annotations

from . import records
from .scene import Scene
from .transcript import show_bytes

PIPELINED = 1000


def pipelined(scene: Scene) -> None:
    """A thousand requests sent without waiting are answered in order."""
    client, root = scene.raw("A"), scene.root
    expected = []
    for number in range(PIPELINED):
        kind, path = number % 5, f"{root}/{number // 5}"
        if kind == 0:
            xid = client.send(records.CREATE, records.create(path))
        elif kind == 1:
            xid = client.send(records.EXISTS, records.read(path))
        elif kind == 2:
            xid = client.send(records.SET, records.set_data(path, b"%d" % number))
        elif kind == 3:
            xid = client.send(records.GET, records.read(path))
        else:
            xid = client.send(records.GET, records.read(f"{path}/none"))
        expected.append(xid)
    replies = [client.receive() for _ in expected]
    scene.note("in order", str([reply.xid for reply in replies] == expected))
    zxids = [reply.zxid for reply in replies]
    scene.note("zxids never fall", str(zxids == sorted(zxids)))
    outcomes = [[str(reply) for reply in replies[kind::5]] for kind in range(5)]
    scene.note("outcomes", str([sorted(set(one)) for one in outcomes]))
    read = [reply.fields.buffer() for reply in replies[3::5]]
    wrote = [b"%d" % number for number in range(2, PIPELINED, 5)]
    scene.note("each read sees the write before it", str(read == wrote))


def event_before_reply(scene: Scene) -> None:
    """A client hears of a change before any reply that shows it."""
    client, other, root = scene.raw("A"), scene.raw("B"), scene.root
    path = f"{root}/n"
    client.call(records.EXISTS, records.read(path, True))
    client.call(records.CHILDREN, records.read(root, True))
    client.take_arrived()
    client.call(records.CREATE, records.create(path))
    scene.note("own create", " | ".join(client.take_arrived()))
    client.call(records.GET, records.read(path, True))
    client.call(records.CHILDREN, records.read(path, True))
    client.take_arrived()
    for number in range(3):
        client.send(records.SET, records.set_data(path, b"%d" % number))
    client.send(records.CREATE, records.create(f"{path}/kid"))
    for _ in range(6):
        client.receive()
    scene.note("own sets, pipelined", " | ".join(client.take_arrived()))
    for number in range(20):
        client.call(records.GET, records.read(path, True))
        client.take_arrived()
        other.call(records.SET, records.set_data(path, b"round %d" % number))
        data = client.call(records.GET, records.read(path)).fields.buffer() or b""
        came = " | ".join(client.take_arrived())
        scene.note(f"read after other's set {number}", f"{came} {show_bytes(data)}")


def deletions(scene: Scene) -> None:
    """A deletion fires once a client, and the node's event before its parent's."""
    client, other, root = scene.raw("A"), scene.raw("B"), scene.root
    path = f"{root}/n"
    client.call(records.CREATE, records.create(path))
    for code in (records.EXISTS, records.GET, records.CHILDREN, records.CHILDREN2):
        client.call(code, records.read(path, True))
    client.call(records.CHILDREN2, records.read(root, True))
    client.take_arrived()
    other.call(records.DELETE, records.versioned(path))
    scene.note("events", " | ".join(client.events()))
    client.call(records.EXISTS, records.read(path, True))
    client.call(records.CHILDREN, records.read(root, True))
    client.take_arrived()
    other.call(records.CREATE, records.create(path))
    scene.note("made anew", " | ".join(client.events()))
    client.call(records.CHILDREN, records.read(path, True))
    client.take_arrived()
    client.call(records.DELETE, records.versioned(path))
    scene.note("own, child watch only", " | ".join(client.take_arrived()))


def collapsed(scene: Scene) -> None:
    """However often a client asks to watch a path, it hears once."""
    client, second, other = scene.raw("A"), scene.raw("B"), scene.raw("C")
    path = f"{scene.root}/n"
    for _ in range(5):
        client.call(records.EXISTS, records.read(path, True))
    second.call(records.EXISTS, records.read(path, True))
    other.call(records.CREATE, records.create(path))
    scene.note("five exists", " | ".join(client.events()))
    scene.note("another client", " | ".join(second.events()))
    for _ in range(3):
        client.call(records.GET, records.read(path, True))
        client.call(records.EXISTS, records.read(path, True))
        client.call(records.CHILDREN, records.read(path, True))
        client.call(records.CHILDREN2, records.read(path, True))
    client.take_arrived()
    client.call(records.GET, records.read(path, False))
    other.call(records.SET, records.set_data(path, b"1"))
    other.call(records.SET, records.set_data(path, b"2"))
    scene.note("set twice", " | ".join(client.events()))
    other.call(records.CREATE, records.create(f"{path}/a"))
    other.call(records.CREATE, records.create(f"{path}/b"))
    scene.note("two children", " | ".join(client.events()))
    scene.note("another client hears no more", " | ".join(second.events()))


def within_multi(scene: Scene) -> None:
    """The events of a multi come in the order of its operations, before its reply."""
    client, root = scene.raw("A"), scene.root
    for name in "ab":
        client.call(records.CREATE, records.create(f"{root}/{name}"))
    for name in "abc":
        client.call(records.EXISTS, records.read(f"{root}/{name}", True))
    client.call(records.CHILDREN, records.read(root, True))
    client.take_arrived()
    operations = [
        (records.SET, records.set_data(f"{root}/b", b"1")),
        (records.CREATE, records.create(f"{root}/c")),
        (records.SET, records.set_data(f"{root}/b", b"2")),
        (records.SET, records.set_data(f"{root}/c", b"3")),
        (records.DELETE, records.versioned(f"{root}/a")),
        (records.DELETE, records.versioned(f"{root}/b")),
    ]
    client.call(records.MULTI, records.multi(operations))
    scene.note("arrived", " | ".join(client.take_arrived()))
    client.call(records.EXISTS, records.read(f"{root}/x", True))
    client.take_arrived()
    operations = [
        (records.CREATE, records.create(f"{root}/x")),
        (records.CHECK, records.versioned(f"{root}/x", 9)),
    ]
    client.call(records.MULTI, records.multi(operations))
    scene.note("refused", " | ".join(client.take_arrived()))
    scene.note("and no event later", " | ".join(client.events()))


def multi_bytes(scene: Scene) -> None:
    """The reply to a multi, byte for byte, apart from stats."""
    client, root = scene.raw("A"), scene.root
    good = [
        (records.CREATE, records.create(f"{root}/a", None, records.SEQUENCE)),
        (records.CREATE2, records.create(f"{root}/b")),
        (records.CHECK, records.versioned(f"{root}/b", 0)),
        (records.SET, records.set_data(f"{root}/b", b"")),
        (records.DELETE, records.versioned(f"{root}/b", 1)),
    ]
    reply = client.call(records.MULTI, records.multi(good))
    scene.note("good", _multi_words(reply))
    bad = [good[1], (records.DELETE, records.versioned(f"{root}/none")), good[2]]
    reply = client.call(records.MULTI, records.multi(bad))
    scene.note("bad", _multi_words(reply))
    reply = client.call(records.MULTI, records.multi([]))
    scene.note("empty", _multi_words(reply))


def _multi_words(reply: records.Reply) -> str:
    fields = reply.fields
    found = [str(reply)]
    while fields.left:
        code, is_last, error = fields.take("i?i")
        words = f"({code} {is_last} {error})"
        if code == records.CREATE:
            words += f" {fields.text()}"
        elif code == records.CREATE2:
            words += f" {fields.text()} v={fields.stat().version}"
        elif code == records.SET:
            words += f" v={fields.stat().version}"
        elif code == -1 and not is_last:
            words += f" {fields.take('i')[0]}"
        found.append(words)
    return ", ".join(found)


SCENES = (
    pipelined,
    event_before_reply,
    deletions,
    collapsed,
    within_multi,
    multi_bytes,
)
