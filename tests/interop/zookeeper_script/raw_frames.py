"""Scenes by raw frames: connecting, framing, and requests that make no sense."""

from __future__ import annotations

import struct

from . import records
from .raw_client import NO_PASSWORD, Closed, ConnectRequest, RawClient
from .scene import Scene

LARGEST_FRAME_BYTES = 0xFFFFF
FRESH = "fresh id, 16-byte password"


def _granted(connection: RawClient, request: ConnectRequest) -> str:
    """What came of a connect request."""
    try:
        session = connection.connect(request)
    except Closed:
        return "closed"
    if not session.timeout_ms:
        zero = session.id == 0 and session.password == NO_PASSWORD
        said = "id 0, zero password" if zero else f"{session.id} {session.password!r}"
        return f"refused: {said}, {session.reply_bytes} bytes, {connection.end()}"
    fresh = session.id not in (0, request.session_id) and len(session.password) == 16
    said = FRESH if fresh else f"{session.id} {session.password!r}"
    return f"{session.timeout_ms} ms, {said}, {session.reply_bytes} bytes"


def connecting(scene: Scene) -> None:
    """The first frame, as all sorts of clients send it."""
    requests = {
        "as now": ConnectRequest(),
        "without the read-only flag": ConnectRequest(read_only=None),
        "read-only allowed": ConnectRequest(read_only=True),
        "two seconds": ConnectRequest(timeout_ms=2000),
        "odd milliseconds": ConnectRequest(timeout_ms=4321),
        "null password": ConnectRequest(password=None),
        "empty password": ConnectRequest(password=b""),
        "short password": ConnectRequest(password=b"abc"),
        "some password": ConnectRequest(password=b"x" * 16),
        "long password": ConnectRequest(password=b"x" * 40),
        "protocol 1": ConnectRequest(protocol=1),
        "unknown id": ConnectRequest(session_id=0x123456789),
        "unknown id, flagless": ConnectRequest(session_id=0x123456, read_only=None),
        "negative id": ConnectRequest(session_id=-5),
    }
    for words, request in requests.items():
        scene.note(words, _granted(scene.connection(), request))
    ahead = ConnectRequest(last_zxid=1 << 62)
    scene.note("has seen a later zxid", _granted(scene.connection(), ahead))
    slow = scene.connection()
    frame = struct.pack(">i", 45) + ConnectRequest().packed()
    for at in range(len(frame)):
        slow.send_bytes(frame[at : at + 1])
    length = len(slow.receive_frame())
    scene.note("byte by byte", f"{length} bytes")
    scene.note("and then", slow.answer(records.EXISTS, records.read("/")))


def before_connecting(scene: Scene) -> None:
    """Whatever is no connect request ends the connection."""
    request = struct.pack(">ii", 1, records.EXISTS) + records.read("/")
    frames = {
        "a request": request,
        "a ping": struct.pack(">ii", -2, records.PING),
        "an empty frame": b"",
        "a cut connect request": ConnectRequest().packed()[:20],
        "zeros": bytes(12),
    }
    for words, frame in frames.items():
        connection = scene.connection()
        connection.send_frame(frame)
        scene.note(words, connection.end())
    garbage = {
        "a negative length": struct.pack(">i", -1) + bytes(40),
        "the least length": struct.pack(">i", -(1 << 31)) + bytes(40),
        "a huge length": struct.pack(">i", 0x7FFFFFFF) + bytes(40),
        "web": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "an unknown word": b"abcd",
        "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    }
    for words, data in garbage.items():
        connection = scene.connection()
        connection.send_bytes(data)
        scene.note(words, connection.end())
    scene.note("the server lives", scene.raw("A").answer(records.EXISTS, _here("/")))


def _here(path: str) -> bytes:
    return records.read(path)


def frame_limits(scene: Scene) -> None:
    """A frame may have 0xfffff bytes; a longer one costs the connection alone."""
    root = scene.root
    connection = scene.raw("A")
    observer = scene.kazoo("B")
    connection.call(records.CREATE, records.create(f"{root}/e", b"", records.EPHEMERAL))
    spare = LARGEST_FRAME_BYTES - 8 - len(records.create(f"{root}/big"))
    body = records.create(f"{root}/big", bytes(spare))
    scene.note("largest", connection.answer(records.CREATE, body))
    reply = connection.call(records.GET, records.read(f"{root}/big"))
    scene.note("comes back whole", str(len(reply.fields.buffer() or b"") == spare))
    body = records.create(f"{root}/bigger", bytes(spare - 2))
    scene.note("one byte more", connection.answer(records.CREATE, body))
    scene.ask("was not created", observer.exists, f"{root}/bigger")
    scene.ask("ephemeral stays", observer.exists, f"{root}/e")
    session = connection.session
    again = ConnectRequest(session_id=session.id, password=session.password)
    resumed = scene.connection()
    scene.note("session resumes", str(resumed.connect(again).id == session.id))
    scene.note("and works", resumed.answer(records.EXISTS, _here(f"{root}/e")))


def malformed(scene: Scene) -> None:
    """Requests that cannot be read, each on a session of its own."""
    root = scene.root
    requests = {
        "empty create": (records.CREATE, b""),
        "empty exists": (records.EXISTS, b""),
        "cut create": (records.CREATE, records.create(f"{root}/x")[:-6]),
        "cut path": (records.EXISTS, struct.pack(">i", 50) + b"/abc"),
        "huge path length": (records.EXISTS, struct.pack(">i", 1 << 30) + b"/abc"),
        "negative path length": (records.EXISTS, struct.pack(">i", -7) + b"/abc"),
        "cut multi": (records.MULTI, struct.pack(">i?i", 1, False, -1)),
        "empty multi": (records.MULTI, b""),
        "multi of unknown": (records.MULTI, records.multi([(77, b"")])),
        "longer than needed": (records.EXISTS, _here("/") + b"more"),
        "opcode 77": (77, b""),
        "opcode 0": (0, b""),
        "opcode -1": (-1, b""),
        "opcode 9999": (9999, _here("/")),
    }
    for words, (code, body) in requests.items():
        connection = scene.raw("A")
        scene.note(words, connection.answer(code, body))
        then = connection.answer(records.EXISTS, _here("/"))
        scene.note(f"{words}, then", then)


def xids(scene: Scene) -> None:
    """An xid is echoed as it came; pings and credentials have their own."""
    connection = scene.raw("A")
    for xid in (5, 5, 3, 0, 2147483647, -100, 1):
        connection.send(records.EXISTS, _here("/"), xid)
        scene.note(f"xid {xid}", str(connection.receive().xid))
    for xid in (records.PING_XID, 7):
        connection.send(records.PING, xid=xid)
        reply = connection.receive()
        scene.note(f"ping {xid}", f"{reply.xid} {reply} {len(reply.body)} bytes")
    connection.send(records.AUTH, _auth("digest", b"a:b"), records.AUTH_XID)
    reply = connection.receive()
    scene.note("auth", f"{reply.xid} {reply} {len(reply.body)} bytes")
    connection.send(records.AUTH, _auth("digest", b"a:b"), 9)
    reply = connection.receive()
    scene.note("auth with another xid", f"{reply.xid} {reply}")
    connection.send(records.AUTH, _auth("nonsense", b"a:b"), records.AUTH_XID)
    reply = connection.receive()
    scene.note("unknown scheme", f"{reply.xid} {reply} then {connection.end()}")
    word = scene.raw("B")
    word.send_bytes(b"ruok")
    scene.note("a word in a session", word.end())


def _auth(scheme: str, credentials: bytes) -> bytes:
    return struct.pack(">i", 0) + records.text(scheme) + records.buffer(credentials)


SCENES = (connecting, before_connecting, frame_limits, malformed, xids)
