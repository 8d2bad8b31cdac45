"""Rounds of start, check, load, kill and damage on one data directory."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from attrs import define, frozen

from tests.support.wire_client import WireClient, chunks

from .ledger import Breach, PartitionLedger
from .own_broker import OwnBroker
from .payloads import Payloads
from .producer import Key, Producer
from .torn import lay_torn_write

PARTITIONS = 4
_SEGMENT_BYTES = (64 << 10, 256 << 10, 1 << 20, 40 << 20)
_TOPICS: dict[str, dict[str, str | int]] = {
    "grouped": {"unflushThreshold": 0},
    "direct": {"unflushThreshold": 200, "unflushInterval": 300},
}
KEYS: list[Key] = [
    (topic, partition) for topic in _TOPICS for partition in range(PARTITIONS)
]
_VERIFY_LIMIT_S = 60
_JOIN_LIMIT_S = 30


@frozen
class Plan:
    """How a campaign goes. `most_bytes`: the data directory is begun anew past it."""

    rounds: int
    seed: int
    work_dir: Path
    longest_load_s: float = 1.0
    most_bytes: int = 1 << 30
    say: Callable[[str], None] = print


@define
class Totals:
    """What a campaign did. `checked` counts a message once for each time it was read
    back and found right."""

    kills: int = 0
    kills_in_start: int = 0
    kills_in_stop: int = 0
    torn: int = 0
    starts: int = 0
    acknowledged: int = 0
    checked: int = 0
    data_directories: int = 0
    seconds: float = 0.0

    def text(self) -> str:
        """One paragraph for people."""
        return (
            f"{self.kills} kills ({self.kills_in_start} during a start,"
            f" {self.kills_in_stop} during a stop), {self.torn} torn writes,"
            f" {self.starts} starts, {self.acknowledged} messages acknowledged,"
            f" {self.checked} messages checked, {self.data_directories} data"
            f" directories, {self.seconds:.0f} s"
        )


class Campaign:
    """Runs a plan; `totals` are up to date after every round, and after a Breach."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._payloads = Payloads(plan.seed)
        self.totals = Totals()
        self._ledgers: dict[Key, PartitionLedger] = {}
        self._highest_id = 0
        self._round = 0
        self.broker = self._new_broker()

    def _new_broker(self) -> OwnBroker:
        self.totals.data_directories += 1
        self._ledgers = {
            key: PartitionLedger(f"{key[0]}-{key[1]}", self._payloads) for key in KEYS
        }
        self._highest_id = 0
        work_dir = self._plan.work_dir / f"data-{self.totals.data_directories}"
        return OwnBroker(work_dir, topics=_TOPICS, metatwist={"maxOpenSegments": 64})

    def run(self) -> Totals:
        """All rounds, and an orderly end. Raises Breach, keeping the directory."""
        began_s = time.monotonic()
        try:
            for number in range(1, self._plan.rounds + 1):
                self._round = number
                self._one_round()
                self.totals.seconds = time.monotonic() - began_s
            self._end_in_order()
        except BaseException:
            self.broker.kill()
            raise
        finally:
            self.totals.seconds = time.monotonic() - began_s
        return self.totals

    # -- one round ----------------------------------------------------------------

    def _one_round(self) -> None:
        self._begin_anew_if_large()
        if self._random.random() < 0.25:
            self._kill_in_start()
        self._start()
        self._verify()
        producers = self._load()
        self._kill(producers)
        self._take_notes(producers)
        if self._random.random() < 0.6:
            self._tear()

    def _begin_anew_if_large(self) -> None:
        size = sum(one.protected_end for one in self._ledgers.values())
        if size > self._plan.most_bytes:
            self._end_in_order()
            shutil.rmtree(self.broker.work_dir)
            self.broker = self._new_broker()

    def _start(self) -> None:
        self.broker.system["maxSegmentSize"] = self._random.choice(_SEGMENT_BYTES)
        self.broker.start()
        self.totals.starts += 1

    def _kill_in_start(self) -> None:
        self.broker.begin()
        time.sleep(self._random.uniform(0.1, 1.0))
        self._count_kill()
        self.totals.kills_in_start += 1
        self.broker.kill()
        if self._random.random() < 0.3:
            self._tear()

    def _count_kill(self) -> None:
        if not self.broker.is_running:
            raise Breach(f"the broker ended by itself:\n{self.broker.log_tail()}")
        self.totals.kills += 1

    def _load(self) -> list[Producer]:
        count = self._random.randint(2, 6)
        producers = [
            Producer(self.broker.port, (self._round, number), KEYS, self._payloads)
            for number in range(count)
        ]
        for producer in producers:
            producer.start()
        time.sleep(self._random.uniform(0, self._plan.longest_load_s))
        return producers

    def _kill(self, producers: list[Producer]) -> None:
        dice = self._random.random()
        if dice < 0.2:
            self.totals.kills_in_stop += 1
            if dice < 0.1:
                for producer in producers:
                    producer.finish()
            os.kill(self.broker.pid, signal.SIGTERM)
            time.sleep(self._random.uniform(0, 0.05))
            if self.broker.is_running:
                self.totals.kills += 1
        else:
            self._count_kill()
        self.broker.kill()

    def _take_notes(self, producers: list[Producer]) -> None:
        for producer in producers:
            producer.join(_JOIN_LIMIT_S)
            if producer.is_alive():
                raise Breach("a producer hangs though the broker is dead")
            if producer.error is not None:
                raise Breach(producer.error)
            for key, sending in producer.sendings:
                self._ledgers[key].take(sending)
                self.totals.acknowledged += sending.stored is not None

    def _tear(self) -> None:
        for (topic, partition), ledger in self._ledgers.items():
            directory = self.broker.data_dir / f"{topic}-{partition}"
            if not directory.is_dir() or self._random.random() < 0.3:
                continue
            done = lay_torn_write(directory, ledger.protected_end, self._random)
            self._plan.say(f"  {directory.name}: {done}")
            self.totals.torn += 1

    # -- checks -------------------------------------------------------------------

    def _verify(self) -> None:
        self._await_background_check()
        earlier_id = self._highest_id
        with WireClient(self.broker.port) as client:
            for key, ledger in self._ledgers.items():
                readable = chunks(client, *key)
                self.totals.checked += ledger.verify(readable, earlier_id)
                self._highest_id = max(self._highest_id, ledger.last_id)

    def _await_background_check(self) -> None:
        """Sealed segments that were not on disk at the kill are walked in the
        background, and damage in them is only known afterwards."""
        deadline = time.monotonic() + _VERIFY_LIMIT_S
        while True:
            output = self.broker.output()
            begun = output.rfind("sealed segments to verify")
            if begun <= output.rfind("sealed segments are verified"):
                return
            started = output.rfind("partitions loaded")
            if begun < started or time.monotonic() > deadline:
                return
            time.sleep(0.02)

    def _end_in_order(self) -> None:
        """Start, check, stop in order, start: all must be there without a walk."""
        self._start()
        self._verify()
        self.broker.stop()
        self.broker.start()
        found = self.broker.cli_json("recovery")
        summary, notable = found["summary"], found["partitions"]
        if summary["clean"] != summary["partitions"] or summary["scanned_bytes"]:
            raise Breach(f"not clean after an orderly stop: {summary} {notable}")
        self._verify()
        self.broker.stop()
        self.totals.starts += 2
