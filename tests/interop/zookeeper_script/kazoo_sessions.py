"""Scenes by kazoo: sessions that resume, move, end and expire."""

from __future__ import annotations

import socket

from kazoo.client import KazooClient

from ...support.tcp_proxy import TcpProxy
from .raw_client import ConnectRequest
from .scene import SESSION_S, WAIT_S, Scene, WatchLog, is_missing, wait_until

SHORT_S = 2.0


class StateLog:
    """The states that a kazoo client went through."""

    def __init__(self, client: KazooClient) -> None:
        self.states: list[str] = []
        client.add_listener(self._add)

    def _add(self, state: str) -> None:
        self.states.append(str(state))

    def wait_for(self, *states: str) -> None:
        """Return once the client went through these, in order and without others."""
        wait_until(lambda: self.states == list(states) or len(self.states) > 5)

    def __str__(self) -> str:
        return " ".join(self.states)


def resumed(scene: Scene) -> None:
    """A dropped connection comes back with the session and its ephemerals."""
    client, other, root = scene.kazoo("A"), scene.kazoo("B"), scene.root
    client.create(f"{root}/e", b"1", ephemeral=True)
    before = client.client_id
    log, states = WatchLog(client, scene.fence), StateLog(client)
    client.get(f"{root}/e", watch=log.watch("get"))
    connection = client._connection._socket
    connection.shutdown(socket.SHUT_RDWR)
    states.wait_for("SUSPENDED", "CONNECTED")
    scene.note("states", str(states))
    scene.note("same session and password", str(client.client_id == before))
    scene.note("kazoo's own word to the watch", log.next(scene.ledger))
    scene.ask("ephemeral", other.exists, f"{root}/e")
    other.set(f"{root}/e", b"2")
    scene.note("the server forgot the watch", " | ".join(log.drain(scene.ledger)))
    scene.ask("create", client.create, f"{root}/e2", ephemeral=True)
    scene.ask("its owner", other.exists, f"{root}/e2")


def taken_over(scene: Scene) -> None:
    """Id and password are all that it takes to go on with a session elsewhere."""
    first, other, root = scene.raw("A"), scene.kazoo("B"), scene.root
    client_id = (first.session.id, first.session.password)
    second = scene.unstarted_kazoo(client_id=client_id)
    second.start(WAIT_S)
    scene.note("same session", str(second.client_id == client_id))
    scene.note("the first connection", first.end())
    scene.ask("create", second.create, f"{root}/e", ephemeral=True)
    scene.ask("its owner", other.exists, f"{root}/e")
    second.stop()
    scene.ask("after stop", other.exists, f"{root}/e")


def refused(scene: Scene) -> None:
    """Without the right password, or after its end, a session is not resumed."""
    living = scene.kazoo("A")
    living.create(f"{scene.root}/e", ephemeral=True)
    session_id, password = living.client_id
    ended = scene.kazoo("B")
    ended_id = ended.client_id
    ended.stop()
    attempts = {
        "wrong password": (session_id, b"x" * 16),
        "no password": (session_id, bytes(16)),
        "ended": ended_id,
        "unknown": (session_id + 1000, password),
    }
    for words, client_id in attempts.items():
        client = scene.unstarted_kazoo(client_id=client_id)
        states = StateLog(client)
        client.start(WAIT_S)
        scene.note(f"{words}: states", str(states))
        new = client.client_id[0] not in (client_id[0], 0)
        scene.note(f"{words}: new session", str(new))
        scene.ask(f"{words}: works", client.exists, f"{scene.root}/none")
    observer = scene.kazoo("C")
    scene.ask("the living session's ephemeral", observer.exists, f"{scene.root}/e")


def expired(scene: Scene) -> None:
    """Past the timeout ephemerals go, watchers hear, and the client is told."""
    observer, root = scene.kazoo("B"), scene.root
    proxy = TcpProxy(scene.address[1])
    scene.at_end(proxy.close)
    client = scene.unstarted_kazoo(proxy.address)
    client._session_timeout = int(SHORT_S * 1000)
    client.start(WAIT_S)
    old = client.client_id
    scene.ledger.name_session(old[0], "A")
    scene.ask("ephemeral", client.create, f"{root}/e", ephemeral=True)
    scene.ask("second ephemeral", client.create, f"{root}/f", ephemeral=True)
    states = StateLog(client)
    log = WatchLog(observer, scene.fence)
    observer.get(f"{root}/e", watch=log.watch("get"))
    observer.get_children(root, watch=log.watch("list"))
    proxy.cut()
    wait_until(lambda: is_missing(observer, f"{root}/e"))
    scene.note("events, sorted", " | ".join(sorted(log.drain(scene.ledger))))
    scene.ask("children", observer.get_children, root)
    scene.ask("root", observer.exists, root)
    proxy.heal()
    states.wait_for("SUSPENDED", "LOST", "CONNECTED")
    scene.note("states", str(states))
    scene.note("new session", str(client.client_id[0] != old[0]))
    scene.ledger.name_session(client.client_id[0], "A again")
    scene.ask("ephemeral anew", client.create, f"{root}/e", ephemeral=True)
    scene.ask("its owner", observer.exists, f"{root}/e")
    client.stop()


def ended(scene: Scene) -> None:
    """Stop removes ephemerals before it returns; silence within the timeout not."""
    observer, root = scene.kazoo("B"), scene.root
    client = scene.kazoo("A")
    client.create(f"{root}/d")
    for name in ("e", "d/f", "d/g"):
        client.create(f"{root}/{name}", ephemeral=True)
    client.create(f"{root}/d/kept")
    dropped = scene.raw("C", ConnectRequest(int(SESSION_S * 1000)))
    dropped.drop()
    client.stop()
    for name in ("e", "d/f", "d/g", "d/kept"):
        scene.ask(f"{name} at once", observer.exists, f"{root}/{name}")
    scene.ask("the directory", observer.exists, f"{root}/d")
    client.start(WAIT_S)
    scene.ledger.name_session(client.client_id[0], "A again")
    scene.ask("started anew", client.create, f"{root}/e", ephemeral=True)
    scene.ask("its owner", observer.exists, f"{root}/e")


SCENES = (resumed, taken_over, refused, expired, ended)
