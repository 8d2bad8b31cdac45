"""Scenes by raw frames: paths and arguments that clients would not let through."""

from __future__ import annotations

from . import records
from .raw_client import RawClient
from .scene import Scene

REFUSALS = {-5, -8, -101}
FLAGS = (2, 3, 7, 8, 99, -1)


def paths(scene: Scene) -> None:
    """Each bad path with each operation: nothing is made, changed or seen by it."""
    root = scene.root
    bad: dict[str, str | bytes | None] = {
        "null": None,
        "empty": "",
        "relative": "abc",
        "relative, deep": "abc/def",
        "double slash": "//",
        "double slash inside": f"{root}//x",
        "slash at the end": f"{root}/",
        "dot": f"{root}/.",
        "dot inside": f"{root}/./x",
        "dots": f"{root}/..",
        "dots inside": f"{root}/../x",
        "NUL": f"{root}/a\0b",
        "control 1": f"{root}/a\x01b",
        "control 1f": f"{root}/a\x1fb",
        "control 7f": f"{root}/a\x7fb",
        "control 9f": f"{root}/a\x9fb",
        "private use": f"{root}/a\uf8ffb",
        "specials": f"{root}/a\ufff0b",
        "no UTF-8": f"{root}/a".encode() + b"\xff\xfeb",
        "astral": f"{root}/a\U0001f600b",
        "newline": f"{root}/a\nb",
    }
    client = scene.raw("A")
    for words, path in bad.items():
        for name, code, body in _requests(path):
            scene.note(f"{words}: {name}", _outcome(client, code, body))


def _outcome(client: RawClient, code: int, body: bytes) -> str:
    """`refused` for each of the three errors that a bad path may have: which of them
    depends on the order of a server's checks."""
    reply = client.call(code, body)
    error = reply.error
    if code == records.MULTI and not error:
        error = reply.fields.take("i?i")[2] or reply.error
    return "refused" if error in REFUSALS else records.ERRORS[error]


def _requests(path: str | bytes | None) -> list[tuple[str, int, bytes]]:
    read = records.read(path)
    return [
        ("exists", records.EXISTS, read),
        ("get", records.GET, read),
        ("list", records.CHILDREN, read),
        ("list2", records.CHILDREN2, read),
        ("set", records.SET, records.set_data(path, b"")),
        ("delete", records.DELETE, records.versioned(path)),
        ("sync", records.SYNC, records.text(path)),
        ("get acl", records.GET_ACL, records.text(path)),
        ("create", records.CREATE, records.create(path)),
        ("sequence", records.CREATE, records.create(path, b"", records.SEQUENCE)),
        ("create2", records.CREATE2, records.create(path)),
        ("multi", records.MULTI, records.multi([(1, records.create(path))])),
        ("delete again", records.DELETE, records.versioned(path)),
    ]


def the_root(scene: Scene) -> None:
    """The root and the system's own znode cannot be made or removed."""
    client = scene.raw("A")
    for path in ("/", "/zookeeper"):
        for name, code, body in (
            ("create", records.CREATE, records.create(path)),
            ("delete", records.DELETE, records.versioned(path)),
            ("exists", records.EXISTS, records.read(path)),
            ("set, wrong version", records.SET, records.set_data(path, b"", 99)),
        ):
            scene.note(f"{name} {path}", client.answer(code, body))


def flags(scene: Scene) -> None:
    """Flags of create beyond those of a plain server's clients."""
    client = scene.raw("A")
    for flag in FLAGS:
        body = records.create(f"{scene.root}/f{flag}-", b"", flag)
        scene.note(f"flags {flag}", client.answer(records.CREATE, body))
        scene.note(f"flags {flag}, then", client.answer(records.EXISTS, _root()))


def _root() -> bytes:
    return records.read("/")


def replies(scene: Scene) -> None:
    """What a reply holds: nothing after an error, and no byte too many."""
    client, root = scene.raw("A"), scene.root
    requests = {
        "create": (records.CREATE, records.create(f"{root}/a", b"data")),
        "create2": (records.CREATE2, records.create(f"{root}/b", b"data")),
        "exists": (records.EXISTS, records.read(f"{root}/a")),
        "get": (records.GET, records.read(f"{root}/a")),
        "get of null": (records.GET, records.read("/zookeeper")),
        "set": (records.SET, records.set_data(f"{root}/a", None)),
        "list": (records.CHILDREN, records.read(root)),
        "list2": (records.CHILDREN2, records.read(root)),
        "get acl": (records.GET_ACL, records.text(root)),
        "sync": (records.SYNC, records.text(root)),
        "delete": (records.DELETE, records.versioned(f"{root}/a")),
        "exists of none": (records.EXISTS, records.read(f"{root}/a")),
        "get of none": (records.GET, records.read(f"{root}/a")),
        "empty list": (records.CHILDREN, records.read(f"{root}/b")),
        "multi": (records.MULTI, records.multi([(2, records.versioned(f"{root}/b"))])),
        "failed multi": (
            records.MULTI,
            records.multi([(2, records.versioned(f"{root}/b"))]),
        ),
        "nothing in multi": (records.MULTI, records.multi([])),
        "close": (records.CLOSE, b""),
    }
    size = len(root)
    last = 0
    for words, (code, body) in requests.items():
        reply = client.call(code, body)
        order = "" if reply.zxid >= last else f" zxid {reply.zxid} after {last}"
        last = reply.zxid
        extra = len(reply.body) - size * reply.body.count(root.encode())
        scene.note(words, f"{reply} {extra} bytes and the root{order}")
    scene.note("then", client.end())


def zxids(scene: Scene) -> None:
    """The zxid in a reply's header is that of the change, or the last one seen."""
    client, root = scene.raw("A"), scene.root
    path = f"{root}/n"
    made = client.call(records.CREATE2, records.create(path, b"1"))
    fields = made.fields
    fields.text()
    stat = fields.stat()
    scene.note("create", f"header is czxid: {made.zxid == stat.czxid}")
    read = client.call(records.GET, records.read(path))
    scene.note("read", f"header is at least czxid: {read.zxid >= stat.czxid}")
    changed = client.call(records.SET, records.set_data(path, b"2"))
    stat = changed.fields.stat()
    scene.note("set", f"header is mzxid: {changed.zxid == stat.mzxid}")
    scene.note("set", f"above the create: {changed.zxid > made.zxid}")
    missing = client.call(records.EXISTS, records.read(f"{root}/none"))
    scene.note("failed read", f"header at least last: {missing.zxid >= changed.zxid}")
    refused = client.call(records.CREATE, records.create(path))
    scene.note("refused create", f"header at least: {refused.zxid >= missing.zxid}")
    client.send(records.PING, xid=records.PING_XID)
    ping = client.receive()
    scene.note("ping", f"header at least last: {ping.zxid >= changed.zxid}")
    gone = client.call(records.DELETE, records.versioned(path))
    parent = client.call(records.EXISTS, records.read(root)).fields.stat()
    scene.note("delete", f"header is the parent's pzxid: {gone.zxid == parent.pzxid}")
    kinds = [(1, records.create(path)), (1, records.create(f"{path}/kid"))]
    both = client.call(records.MULTI, records.multi(kinds))
    one = client.call(records.EXISTS, records.read(path)).fields.stat()
    two = client.call(records.EXISTS, records.read(f"{path}/kid")).fields.stat()
    same = both.zxid == one.czxid == two.czxid == one.pzxid
    scene.note("multi", f"one zxid for all: {same}")


SCENES = (paths, the_root, flags, replies, zxids)
