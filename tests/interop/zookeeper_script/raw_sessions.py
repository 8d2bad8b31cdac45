"""Scenes by raw frames: resuming, losing and ending a session."""

from __future__ import annotations

import time

from . import records
from .raw_client import NO_PASSWORD, Closed, ConnectRequest, RawClient
from .scene import WAIT_S, Scene

SHORT_MS = 2000
PING_EVERY_S = 0.2


def resuming(scene: Scene) -> None:
    """Id and password resume a session, whatever the state of its old connection."""
    first, observer, root = scene.raw("A"), scene.kazoo("B"), scene.root
    first.call(records.CREATE, records.create(f"{root}/e", b"", records.EPHEMERAL))
    session = first.session
    request = ConnectRequest(session_id=session.id, password=session.password)
    second = scene.connection()
    scene.note("while connected", _same(second, request, session.password))
    scene.note("old connection", first.end())
    scene.note("new connection", second.answer(records.EXISTS, _read(f"{root}/e")))
    second.drop()
    third = scene.connection()
    scene.note("after a drop", _same(third, request, session.password))
    shorter = ConnectRequest(
        timeout_ms=4000, session_id=session.id, password=session.password
    )
    fourth = scene.connection()
    scene.note("with another timeout", _same(fourth, shorter, session.password))
    scene.note("which closes", third.end())
    flagless = ConnectRequest(
        session_id=session.id, password=session.password, read_only=None
    )
    fifth = scene.connection()
    scene.note("without the flag", _same(fifth, flagless, session.password))
    scene.ask("ephemeral", observer.exists, f"{root}/e")
    fifth.call(records.CREATE, records.create(f"{root}/f", b"", records.EPHEMERAL))
    scene.ask("new ephemeral", observer.exists, f"{root}/f")


def _same(connection: RawClient, request: ConnectRequest, password: bytes) -> str:
    """What a resume was granted, against what the session has."""
    session = connection.connect(request)
    return (
        f"{session.timeout_ms} ms, same id {session.id == request.session_id}, "
        f"same password {session.password == password}, {session.reply_bytes} bytes"
    )


def _read(path: str) -> bytes:
    return records.read(path)


def refused(scene: Scene) -> None:
    """A resume that is refused says timeout 0 and closes, and harms nobody."""
    owner, observer, root = scene.raw("A"), scene.kazoo("B"), scene.root
    owner.call(records.CREATE, records.create(f"{root}/e", b"", records.EPHEMERAL))
    ended = scene.raw("C")
    scene.note("close", ended.answer(records.CLOSE))
    scene.note("after close", ended.end())
    living, over = owner.session, ended.session
    attempts = {
        "wrong password": (living.id, b"x" * 16),
        "zero password": (living.id, NO_PASSWORD),
        "null password": (living.id, None),
        "empty password": (living.id, b""),
        "cut password": (living.id, living.password[:15]),
        "another's password": (living.id, over.password),
        "ended session": (over.id, over.password),
        "unknown session": (living.id + 12345, living.password),
    }
    for words, (session_id, password) in attempts.items():
        for flag in (False, None):
            request = ConnectRequest(
                session_id=session_id, password=password, read_only=flag
            )
            scene.note(f"{words}, flag {flag}", _refusal(scene.connection(), request))
    scene.note("the owner goes on", owner.answer(records.EXISTS, _read(f"{root}/e")))
    scene.ask("its ephemeral", observer.exists, f"{root}/e")


def _refusal(connection: RawClient, request: ConnectRequest) -> str:
    try:
        session = connection.connect(request)
    except Closed:
        return "closed"
    words = f"{session.timeout_ms} ms, id {session.id}, {session.password!r}"
    return f"{words}, {session.reply_bytes} bytes, then {connection.end()}"


def closing(scene: Scene) -> None:
    """closeSession removes ephemerals before its reply; a drop removes nothing."""
    closer, dropper = scene.raw("A"), scene.raw("C")
    observer, root = scene.raw("B"), scene.root
    for client, name in ((closer, "a"), (dropper, "c")):
        body = records.create(f"{root}/{name}", b"", records.EPHEMERAL)
        client.call(records.CREATE, body)
        observer.call(records.EXISTS, records.read(f"{root}/{name}", True))
    observer.take_arrived()
    closer.call(records.EXISTS, records.read(f"{root}/a", True))
    closer.take_arrived()
    xid = closer.send(records.CLOSE)
    closer.send(records.CREATE, records.create(f"{root}/late"))
    reply = closer.reply_to(xid)
    observer.call(records.EXISTS, _read(f"{root}/a"))
    scene.note("observer", " | ".join(observer.take_arrived()))
    scene.note("reply", f"{reply} {len(reply.body)} bytes")
    scene.note("closer", " | ".join(closer.take_arrived()))
    # Whether the request is still refused before that is a matter of luck.
    scene.note("a request after it", closer.end().split()[-1])
    scene.note("is not done", observer.answer(records.EXISTS, _read(f"{root}/late")))
    dropper.drop()
    scene.note("dropped", observer.answer(records.EXISTS, _read(f"{root}/c")))


def expiring(scene: Scene) -> None:
    """Silence ends a session, connected or not; pings keep it."""
    observer, root = scene.raw("B"), scene.root
    short = ConnectRequest(timeout_ms=SHORT_MS)
    silent, dropped, pinging = (scene.raw(name, short) for name in "ACD")
    clients = {"silent": silent, "dropped": dropped, "pinging": pinging}
    for name, client in clients.items():
        body = records.create(f"{root}/{name}", b"", records.EPHEMERAL)
        client.call(records.CREATE, body)
        observer.call(records.GET, records.read(f"{root}/{name}", True))
    observer.take_arrived()
    dropped.drop()
    events: list[str] = []
    deadline = time.monotonic() + WAIT_S
    while len(events) < 2 and time.monotonic() < deadline:
        pinging.ping()
        time.sleep(PING_EVERY_S)
        events += observer.events()
    scene.note("observer, sorted", " | ".join(sorted(events)))
    for name in clients:
        scene.note(name, observer.answer(records.EXISTS, _read(f"{root}/{name}")))
    scene.note("silent connection", silent.end())
    for name, client in (("silent", silent), ("dropped", dropped)):
        session = client.session
        request = ConnectRequest(
            timeout_ms=SHORT_MS, session_id=session.id, password=session.password
        )
        scene.note(f"{name} comes back", _refusal(scene.connection(), request))
    scene.note("pinging", pinging.answer(records.EXISTS, _read(f"{root}/pinging")))


SCENES = (resuming, refused, closing, expiring)
