"""All that is known of a coordinator's tree, checked after each start.

Besides what each group's ledger says: zxids and their epoch rise, the broker is
registered by a new session, no other ephemeral znode is left, and old sessions are
refused as over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import attrs

from tests.interop.zookeeper_script import records

from .group_ledger import GroupLedger
from .group_model import Found, GroupModel
from .ledger import Breach
from .offsets import Notes
from .tree_reader import TreeReader, check_refused
from .write_ahead_log import Left

GROUPS_PATH = "/meta/consumers"
_MASTER = "/meta/brokers/ids/0/master"
_REGISTERED_LAST = "/meta/brokers/topics-sub/test/0-m"
_EPOCH_BITS = 32
_WAIT_S = 30
_MOST_SHOWN = 5
_SESSIONS_TRIED = 3


class TreeTruth:
    """The truth about one database, with a number of groups in it.

    `left` is what damage has left, None while nothing acknowledged was damaged.
    `checked` counts a znode once for each time it was found right, `surplus` requests
    that were done and not answered, `refused` old sessions that were.
    """

    def __init__(self, groups: int) -> None:
        roots = [f"{GROUPS_PATH}/g{number}" for number in range(groups)]
        self._ledgers = {root: GroupLedger(GroupModel(root)) for root in roots}
        self._notes: dict[str, Notes] = {}
        self._highest_zxid = 0
        self._last_epoch = 0
        self._owner = 0
        self.left: Left | None = None
        self.checked = self.surplus = self.refused = 0

    @property
    def models(self) -> list[GroupModel]:
        """All groups, as they were found after the last start."""
        return [ledger.model for ledger in self._ledgers.values()]

    def take(self, notes: Notes) -> None:
        """Note what one group's session has done."""
        self._notes[notes.root] = notes
        self._highest_zxid = max([self._highest_zxid, *notes.zxids])

    def verify(self, port: int, address: str) -> None:
        """Check the tree that is served at `port` by the broker known as `address`.

        Raises Breach. Afterwards there is a place for groups.
        """
        with TreeReader(port) as reader:
            self._check_zxid(reader)
            self._await_registration(reader, address)
            tree = reader.tree("/")
            if GROUPS_PATH not in tree:
                reader.call(records.CREATE, records.create(GROUPS_PATH, None))
            reader.call(records.CLOSE)
        self._check_ephemerals(tree)
        self._check_groups(tree)
        sessions = [one.session for one in self._notes.values() if one.session]
        for session in sessions[:_SESSIONS_TRIED]:
            check_refused(port, session)
            self.refused += 1
        self._notes, self.left = {}, None

    def _check_zxid(self, reader: TreeReader) -> None:
        reader.found("/")
        zxid, before = reader.last_zxid, self._highest_zxid
        self._last_epoch = before >> _EPOCH_BITS
        rises = zxid >> _EPOCH_BITS > self._last_epoch
        if self.left is None and not rises:
            raise Breach(f"zxid {zxid:#x} after {before:#x} of an earlier start")
        self._highest_zxid = zxid

    def _await_registration(self, reader: TreeReader, address: str) -> None:
        wait_until(
            lambda: reader.found(_REGISTERED_LAST) is not None,
            f"{_REGISTERED_LAST} is there",
        )
        master = reader.found(_MASTER)
        if master is None or (master.data or b"").decode() != address:
            raise Breach(f"the broker {address} is registered as {master}")
        if master.stat.ephemeralOwner in (0, self._owner):
            raise Breach(f"the broker's node belongs to an earlier session: {master}")
        self._owner = master.stat.ephemeralOwner

    def _check_ephemerals(self, tree: Mapping[str, Found]) -> None:
        for path, found in tree.items():
            if found.stat.ephemeralOwner not in (0, self._owner):
                raise Breach(f"{path} of a session that is over is there: {found}")

    def _check_groups(self, tree: Mapping[str, Found]) -> None:
        by_group: dict[str, dict[str, Found]] = {root: {} for root in self._ledgers}
        for path, found in tree.items():
            if _is_in_group(path):
                root = "/".join(path.split("/")[:4])
                by_group.setdefault(root, {})[path] = found
        if len(by_group) > len(self._ledgers):
            raise Breach(f"groups that nobody made: {sorted(by_group)}")
        if self.left is not None:
            _check_left(tree, self.left)
        for root, ledger in self._ledgers.items():
            self._check_group(ledger, root, by_group[root])

    def _check_group(
        self, ledger: GroupLedger, root: str, found: Mapping[str, Found]
    ) -> None:
        notes = self._notes.get(root, Notes(root))
        if self.left is None:
            self.surplus += ledger.judge(notes, found)
        elif self.left.epoch == self._last_epoch:
            # Acknowledged requests may be gone, but only the last ones.
            ledger.judge(attrs.evolve(notes, zxids=[]), found)
        else:
            ledger.adopt(found)
        self.checked += len(found)


def _check_left(tree: Mapping[str, Found], left: Left) -> None:
    """After a loss: what SQLite reads of the whole commits, and nothing else."""
    expected = {path: row for path, row in left.rows.items() if _is_in_group(path)}
    found = {
        path: (one.data, one.stat.version)
        for path, one in tree.items()
        if _is_in_group(path)
    }
    differing = {
        path for path in {*found, *expected} if found.get(path) != expected.get(path)
    }
    if differing:
        some = sorted(differing)[:_MOST_SHOWN]
        raise Breach(f"{len(differing)} are not what was left of the log: {some}")


def _is_in_group(path: str) -> bool:
    return path.startswith(f"{GROUPS_PATH}/")


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Return once `is_so()`; raise Breach after half a minute."""
    deadline = time.monotonic() + _WAIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise Breach(f"still not so after {_WAIT_S} s: {what}")
        time.sleep(0.002)
