"""Scenes of the four-letter words that monitoring sends."""

from __future__ import annotations

import re
import socket

from . import records
from .raw_client import WAIT_S
from .scene import Scene

COUNTERS = (
    "zk_version",
    "zk_server_state",
    "zk_avg_latency",
    "zk_max_latency",
    "zk_min_latency",
    "zk_packets_received",
    "zk_packets_sent",
    "zk_num_alive_connections",
    "zk_outstanding_requests",
    "zk_znode_count",
    "zk_watch_count",
    "zk_ephemerals_count",
    "zk_approximate_data_size",
)
LINES = (
    "Zookeeper version:",
    "Latency min/avg/max:",
    "Received:",
    "Sent:",
    "Connections:",
    "Outstanding:",
    "Zxid:",
    "Mode:",
    "Node count:",
)


def _ask(scene: Scene, word: bytes) -> str:
    """All that the server says to a word until it closes."""
    with socket.create_connection(scene.address, WAIT_S) as peer:
        peer.sendall(word)
        said = b""
        try:
            while part := peer.recv(1 << 16):
                said += part
        except ConnectionResetError:
            pass  # a server may close hard once all is said
    return said.decode()


def words(scene: Scene) -> None:
    """ruok, srvr, stat and mntr, by what they must contain."""
    client = scene.raw("A")
    body = records.create(f"{scene.root}/e", b"", records.EPHEMERAL)
    client.call(records.CREATE, body)
    client.call(records.GET, records.read(scene.root, True))
    scene.note("ruok", repr(_ask(scene, b"ruok")))
    for word in ("srvr", "stat"):
        said = _ask(scene, word.encode())
        for line in LINES:
            scene.note(f"{word} {line}", str(f"\n{line}" in f"\n{said}"))
        scene.note(f"{word} Clients:", str("Clients:" in said))
        mode = re.search(r"^Mode: (\w+)$", said, re.MULTILINE)
        scene.note(f"{word} mode", mode[1] if mode else "none")
    said = _ask(scene, b"mntr")
    found = dict(re.findall(r"^(\w+)\t(.*)$", said, re.MULTILINE))
    for name in COUNTERS:
        scene.note(f"mntr {name}", str(name in found))
    scene.note("mntr state", found.get("zk_server_state", "none"))
    for name in ("zk_znode_count", "zk_watch_count", "zk_ephemerals_count"):
        scene.note(f"{name} above 0", str(int(found.get(name, 0)) > 0))
    kazoo = scene.kazoo("B")
    scene.note("kazoo's ruok", kazoo.command(b"ruok"))


SCENES = (words,)
