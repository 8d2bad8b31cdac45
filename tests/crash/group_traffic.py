"""What a consumer group's session asks for: offsets above all, and a bit of the rest.

Every request is one that must succeed, or must be refused, given those before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.interop.zookeeper_script.records import (
    CREATE,
    DELETE,
    EPHEMERAL,
    SEQUENCE,
    SET,
)

from .group_model import Change, GroupModel, Request

PARTITIONS = 16
_MOST_IN_QUEUE = 6
_MOST_GUESTS = 8
_MOST_BYTES = 60_000
_DIRECTORIES = (
    "",
    "/offsets",
    "/offsets/test",
    "/owners",
    "/owners/test",
    "/ids",
    "/queue",
    "/guests",
)


class GroupTraffic:
    """Requests for one group; `model` is as all of them so far leave it."""

    def __init__(self, model: GroupModel, source: random.Random) -> None:
        self.model = model
        self._random = source
        self._owned: set[str] = set()
        kinds: list[tuple[int, Callable[[], Request]]] = [
            (24, self._commit),
            (3, self._commit_several),
            (4, self._guest),
            (3, self._ticket),
            (3, self._claim),
            (3, self._pair),
            (1, self._replace),
            (1, self._refused),
        ]
        self._weights = [weight for weight, _ in kinds]
        self._kinds = [kind for _, kind in kinds]

    def next(self) -> Request:
        """The next request, which the caller gives to the model."""
        for name in _DIRECTORIES:
            if self.model.root + name not in self.model.nodes:
                return Request((Change(CREATE, self.model.root + name),))
        (kind,) = self._random.choices(self._kinds, self._weights)
        return kind()

    # -- kinds of requests --------------------------------------------------------

    def _commit(self) -> Request:
        partition = self._random.randrange(PARTITIONS)
        return Request((self._offset_of(partition),))

    def _commit_several(self) -> Request:
        some = self._random.sample(range(PARTITIONS), self._random.randint(2, 6))
        return Request(tuple(self._offset_of(partition) for partition in some))

    def _offset_of(self, partition: int) -> Change:
        path = f"{self.model.root}/offsets/test/0-{partition}"
        node = self.model.nodes.get(path)
        message_id = self._random.getrandbits(64) - (1 << 63)
        if node is None:
            return Change(CREATE, path, b"%d-%d" % (message_id, 1))
        before = int((node.data or b"").rpartition(b"-")[2])
        data = b"%d-%d" % (message_id, before + self._random.randint(1, 5000))
        return Change(SET, path, data, version=self._version(path))

    def _version(self, path: str) -> int:
        return self._random.choice((-1, self.model.nodes[path].version))

    def _guest(self) -> Request:
        """Somebody comes, with company at times, or leaves."""
        guests = self.model.children(f"{self.model.root}/guests")
        if len(guests) >= _MOST_GUESTS or (guests and self._random.random() < 0.4):
            guest = self._random.choice(guests)
            company = self.model.children(guest)
            return Request((self._leaving(company[0] if company else guest),))
        if guests and self._random.random() < 0.3:
            path = f"{self._random.choice(guests)}/company"
            if path not in self.model.nodes:
                return Request((Change(CREATE, path, self._data()),))
        name = self._random.getrandbits(32)
        path = f"{self.model.root}/guests/g{name:08x}"
        return Request((Change(CREATE, path, self._data()),))

    def _leaving(self, path: str) -> Change:
        return Change(DELETE, path, version=self._version(path))

    def _ticket(self) -> Request:
        """A numbered znode, at times an ephemeral one, or the oldest goes."""
        queue = f"{self.model.root}/queue"
        waiting = sorted(self.model.children(queue))
        if len(waiting) >= _MOST_IN_QUEUE:
            return Request((self._leaving(waiting[0]),))
        flags = SEQUENCE | self._random.choice((0, 0, EPHEMERAL))
        return Request((Change(CREATE, f"{queue}/n-", self._data(), flags),))

    def _claim(self) -> Request:
        """Own a partition, or give it back."""
        partition = self._random.randrange(PARTITIONS)
        path = f"{self.model.root}/owners/test/0-{partition}"
        if path in self._owned:
            self._owned.discard(path)
            return Request((Change(DELETE, path),))
        self._owned.add(path)
        return Request((Change(CREATE, path, b"me", EPHEMERAL),))

    def _pair(self) -> Request:
        """Two znodes that are always equal, there together or not at all."""
        paths = [f"{self.model.root}/{name}" for name in ("left", "right")]
        data = self._data()
        if paths[0] not in self.model.nodes:
            return Request(tuple(Change(CREATE, path, data) for path in paths))
        if self._random.random() < 0.2:
            return Request(tuple(Change(DELETE, path) for path in paths))
        return Request(tuple(Change(SET, path, data) for path in paths))

    def _replace(self) -> Request:
        """A znode goes and comes again within one transaction."""
        guests = self.model.children(f"{self.model.root}/guests")
        childless = [path for path in guests if not self.model.children(path)]
        if not childless:
            return self._commit()
        path = self._random.choice(childless)
        return Request((self._leaving(path), Change(CREATE, path, self._data())))

    def _refused(self) -> Request:
        """A transaction of all sorts whose last operation fails."""
        changes = [*self._commit_several().changes, *self._pair().changes]
        queue = f"{self.model.root}/queue/n-"
        changes.append(Change(CREATE, queue, b"", SEQUENCE))
        return Request(tuple(changes), refused=True)

    def _data(self) -> bytes | None:
        kind = self._random.randrange(20)
        if kind == 0:
            return self._random.randbytes(self._random.randint(1, _MOST_BYTES))
        if kind < 5:
            return self._random.choice((None, b"", b"\0", b"\xff\0\xfe"))
        return b"%x" % self._random.getrandbits(self._random.randint(1, 900))
