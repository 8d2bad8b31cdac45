"""What a broker has registered: as it should be, and as kazoo's own client finds it."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from metatwist.cli.control_client import BrokerUnreachable

from ..support.broker_process import BrokerProcess

_BROKERS = "/meta/brokers"
_TREES = ("topics", "topics-pub", "topics-sub")


class Found(NamedTuple):
    """A znode: its data, and the session that it lasts as long as, 0 for ever."""

    data: bytes
    owner: int


class Registration:
    """What one master has in the tree; `topics` has the number of partitions of each
    topic that it should show now."""

    def __init__(
        self, broker: BrokerProcess, topics: Mapping[str, int], number: int = 0
    ) -> None:
        self.broker = broker
        self.topics = dict(topics)
        self.number = number
        self._own = f"{_BROKERS}/ids/{number}"

    def expected(self, session_id: int) -> dict[str, Found]:
        """All its nodes by path, parents first (spec layout 3)."""
        url, name = self.broker.address.encode(), f"{self.number}-m"
        checksum = zlib.crc32(self.broker.ini_path.read_bytes())
        nodes = {
            self._own: Found(url, 0),
            f"{self._own}/master": Found(url, session_id),
            f"{self._own}/master_config_checksum": Found(b"%d" % checksum, session_id),
        }
        for topic, count in self.topics.items():
            new = b'{"numParts":%d,"broker":"%s"}' % (count, name.encode())
            for tree, data in zip(_TREES, (b"%d" % count, new, new), strict=True):
                path = f"{_BROKERS}/{tree}/{topic}/{name}"
                nodes[path] = Found(data, session_id)
        return nodes

    def found(self, client: KazooClient) -> dict[str, Found]:
        """All its nodes that there are, those of any topic."""
        paths = [self._own, *_children(client, self._own)]
        for tree in _TREES:
            topics = _children(client, f"{_BROKERS}/{tree}")
            paths += [f"{topic}/{self.number}-m" for topic in topics]
        nodes = {}
        for path in paths:
            with contextlib.suppress(NoNodeError):
                data, stat = client.retry(client.get, path)
                nodes[path] = Found(data, stat.ephemeralOwner)
        return nodes

    def is_gone(self, client: KazooClient) -> bool:
        """Whether no node is left that lasts as long as a session."""
        return not any(one.owner for one in self.found(client).values())

    def is_right(self, client: KazooClient) -> bool:
        """Whether the broker says so, and its session of now has all its nodes and no
        more."""
        session_id = self.session_id
        return session_id != 0 and self.found(client) == self.expected(session_id)

    @property
    def session_id(self) -> int:
        """The session of a broker that is connected and has no problem, else 0."""
        view = self.view()
        if view.get("state") != "connected" or view["problem"] is not None:
            return 0
        return int(view["session_id"], 16)

    def view(self) -> dict[str, Any]:
        """What `status` says of it; nothing while the broker does not answer."""
        with contextlib.suppress(BrokerUnreachable):
            status: Any = self.broker.admin("status")
            found: dict[str, Any] = status["coordination"]
            return found
        return {}


def _children(client: KazooClient, path: str) -> Iterator[str]:
    with contextlib.suppress(NoNodeError):
        for name in client.retry(client.get_children, path):
            yield f"{path}/{name}"
