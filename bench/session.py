"""One sitting: every row, in rounds, on every server in turn."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from attrs import evolve, frozen
from load import LoadError, LoadGenerator, LoadResult
from memory_ballast import MemoryBallast
from peer import Peer, PeerError
from procfs import Memory, cpu_s
from rows import PARTITIONS, Row

MAX_RUN_BYTES = 512 << 20
"""More would wait for the disk, whatever the server."""

FILL_MESSAGES = 400_000
PROBE_S = 0.1
ATTEMPTS = 3

_FIRST_TOUCH = Row("first-touch", "one put a partition", "sync", 1, 1, 1024)
_WARM_UP = Row("warm-up", "10 x 64 in flight", "sync", 10, 64, 1024)


@frozen
class Run:
    """One measured run of one row on one server."""

    row: Row
    server: str
    round: int
    result: LoadResult


@frozen
class Ending:
    """A server after the last run.

    Attributes:
        memory: the largest seen, when the runs were over or before data was dropped.
        start_s: a start on the data of the runs, until `version` was answered.
    """

    server: str
    memory: Memory
    data_bytes: int
    start_s: float


class Session:
    """Measures rows on the servers in turn, their order rotated.

    Attributes:
        notes: what went wrong or was repeated, for the report.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        generator: LoadGenerator,
        run_s: float,
        say: Callable[[str], None],
    ) -> None:
        self.peers = list(peers)
        self.notes: list[str] = []
        self._generator = generator
        self._run_s = run_s
        self._ballast = MemoryBallast()
        self._say = say
        self._rates: dict[tuple[str, str], float] = {}
        self._filled: set[str] = set()

    def start(self) -> None:
        """Start and warm up every server; one that fails is left out with a note."""
        for peer in list(self.peers):
            begun_s = time.monotonic()
            with self._left_out_on_failure(peer):
                peer.start()
                self._warm_up(peer)
                took_s = time.monotonic() - begun_s
                self._say(f"{peer.name}: started, warmed up in {took_s:.1f} s")

    def measure(self, row: Row, rounds: int) -> list[Run]:
        """Every server `rounds` times, another one first in each round."""
        runs = []
        for number in range(rounds):
            first = number % max(len(self.peers), 1)
            for peer in self.peers[first:] + self.peers[:first]:
                with self._left_out_on_failure(peer):
                    runs.append(Run(row, peer.name, number, self._run(peer, row)))
        self._ballast.release()
        return runs

    def end(self) -> list[Ending]:
        """Note the memory, then stop each server in order and start it once more."""
        endings = []
        for peer in list(self.peers):
            with self._left_out_on_failure(peer):
                data_bytes = peer.data_bytes()
                peer.stop()
                os.sync()
                memory = peer.largest_memory
                peer.start()
                start_s = peer.answered_after_s()
                endings.append(Ending(peer.name, memory, data_bytes, start_s))
                peer.stop()
        return endings

    @contextmanager
    def _left_out_on_failure(self, peer: Peer) -> Iterator[None]:
        try:
            yield
        except LoadError as error:
            self._leave_out(peer, f"{error}\n{peer.log_tail()}")
        except PeerError as error:
            self._leave_out(peer, str(error))

    def _leave_out(self, peer: Peer, why: str) -> None:
        self._note(f"{peer.name} is left out from here: {why}")
        peer.kill()
        self.peers = [one for one in self.peers if one is not peer]

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self._say(text)

    def _warm_up(self, peer: Peer) -> None:
        for topic in ("sync", "direct"):
            touch, load = (evolve(row, topic=topic) for row in (_FIRST_TOUCH, _WARM_UP))
            self._generator.put(peer.port(topic), touch, PARTITIONS)
            self._attempt(peer, load, peer.warm_up_puts)

    def _run(self, peer: Peer, row: Row) -> LoadResult:
        if not row.is_get and peer.data_bytes() > peer.discard_bytes:
            peer.discard()
            self._filled.discard(peer.name)
            self._warm_up(peer)
        self._prepare(peer, row)
        os.sync()
        if row.is_fresh:
            self._ballast.grow()
        result = self._attempt(peer, row, self._amount(peer, row))
        self._rates[row.name, peer.name] = result.rate
        return result

    def _prepare(self, peer: Peer, row: Row) -> None:
        """Fill the topic that is read, and learn the rate with short runs."""
        port = peer.port(row.topic)
        if row.is_get and peer.name not in self._filled:
            fill = evolve(_WARM_UP, topic=row.topic)
            self._generator.put(port, evolve(_FIRST_TOUCH, topic=row.topic), PARTITIONS)
            self._attempt(peer, fill, FILL_MESSAGES)
            self._filled.add(peer.name)
        key = row.name, peer.name
        if key in self._rates:
            return
        probe = self._attempt(peer, row, 1 if row.is_get else max(100, row.in_flight))
        while probe.seconds < PROBE_S / 4 and not row.is_get:
            probe = self._attempt(peer, row, int(probe.rate * PROBE_S) + row.in_flight)
        self._rates[key] = probe.rate

    def _amount(self, peer: Peer, row: Row) -> int:
        """Passes of a get, or messages to put, for a run of about the wanted time."""
        wanted = self._rates[row.name, peer.name] * self._run_s
        if row.is_get:
            return max(1, math.ceil(wanted / (FILL_MESSAGES * row.body_bytes)))
        most = MAX_RUN_BYTES // row.body_bytes
        return max(min(int(wanted), most), 4 * row.in_flight, 100)

    def _attempt(self, peer: Peer, row: Row, amount: int) -> LoadResult:
        """One run, repeated when metaload gave up on a reply that came very late."""
        run = self._generator.get_all if row.is_get else self._generator.put
        for attempt in range(1, ATTEMPTS + 1):
            before_s = cpu_s(peer.pids())
            try:
                result = run(peer.port(row.topic), row, amount)
                return evolve(result, cpu_s=cpu_s(peer.pids()) - before_s)
            except LoadError as error:
                if attempt == ATTEMPTS or not peer.is_running():
                    raise
                self._note(f"{peer.name} {row.name}: repeated after: {error}")
        raise AssertionError("unreachable")
