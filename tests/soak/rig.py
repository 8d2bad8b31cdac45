"""A broker, client processes and the links between them, all of which can fail."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from attrs import define, field
from typing_extensions import Self

from tests.crash.own_broker import OwnBroker
from tests.support.broker_process import ROOT
from tests.support.child_process import ChildProcess, free_port
from tests.support.tcp_proxy import TcpProxy

SESSION_S = 4
WAIT_S = 60.0


class Member(ChildProcess):
    """`tests.soak.program` as a process; its journal outlives it."""

    def __init__(self, work_dir: Path, name: str, options: list[str]) -> None:
        super().__init__(work_dir, port=1)  # it has none
        self.name = name
        self.journal = self.work_dir / f"{name}.journal"
        self._options = options

    def _argv(self) -> list[str]:
        program = [sys.executable, "-m", "tests.soak.program"]
        own = ["--journal", str(self.journal), "--name", self.name]
        return [*program, *own, *self._options]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def _answers(self) -> bool:
        return self.journal.exists() and '"started"' in self.journal.read_text()

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    @property
    def rss_bytes(self) -> int:
        """What it has in memory now, 0 when it does not run."""
        with contextlib.suppress(OSError):
            if self.is_running:
                pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
                return int(pages) * os.sysconf("SC_PAGE_SIZE")
        return 0


@define
class Journals:
    """What all members have written, as far as it was read."""

    acked: set[str] = field(factory=set)
    failed: set[str] = field(factory=set)
    answers: Counter[str] = field(factory=Counter)
    got: Counter[str] = field(factory=Counter)
    stopped: dict[str, list[str]] = field(factory=dict)
    _read: dict[Path, int] = field(factory=dict)

    def read(self, path: Path) -> None:
        """Take in what is new in one."""
        if not path.exists():
            return
        with open(path, "rb") as file:
            file.seek(self._read.get(path, 0))
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read[path] = self._read.get(path, 0) + len(line)
                self._take(path.stem, json.loads(line))

    def _take(self, name: str, line: dict[str, object]) -> None:
        event, body = line["event"], str(line.get("body"))
        if event == "got":
            self.got[body] += 1
        elif event in ("acked", "failed"):
            (self.acked if event == "acked" else self.failed).add(body)
            self.answers[body] += 1
        elif event == "stopped":
            timers = line["timers"]
            assert isinstance(timers, list)
            self.stopped[name] = timers

    @property
    def missing(self) -> set[str]:
        """Acknowledged, and not consumed so far."""
        return self.acked - self.got.keys()

    @property
    def duplicates(self) -> int:
        """Deliveries beyond the first."""
        return self.got.total() - len(self.got)

    @property
    def answered_twice(self) -> list[str]:
        """Messages whose Deferred fired more than once."""
        return [body for body, count in self.answers.items() if count > 1]


class Rig:
    """One broker with its coordinator, and members that reach both through proxies."""

    def __init__(self, directory: Path, rate: int = 200, size: int = 1000) -> None:
        self.directory = directory
        self.port = free_port()
        environ = {
            "METATWIST_METATWIST_coordinator": "embedded",
            "METATWIST_METATWIST_coordinatorEndpoint": (
                f"tcp:{self.port}:interface=127.0.0.1"
            ),
        }
        self.broker = OwnBroker(directory / "broker", environ=environ)
        self.broker_link = TcpProxy(self.broker.port)
        self.coordinator_link = TcpProxy(self.port)
        self.members: list[Member] = []
        self.journals = Journals()
        self._load = ["--rate", str(rate), "--size", str(size)]
        self._names = 0

    def __enter__(self) -> Self:
        self.broker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members:
            member.kill()
        self.broker.kill()
        self.broker_link.close()
        self.coordinator_link.close()

    def member(self) -> Member:
        """One more, that has joined."""
        self._names += 1
        options = ["--zookeeper", self.coordinator_link.address, *self._load]
        options += ["--via", str(self.broker_link.port), "--session-s", str(SESSION_S)]
        name = f"m{self._names}"
        member = Member(self.directory / name, name, options)
        self.members.append(member)
        member.start()
        return member

    def read(self) -> Journals:
        """What all have written by now."""
        for member in self.members:
            self.journals.read(member.journal)
        return self.journals

    def until(self, is_so: Callable[[Journals], bool], what: str) -> None:
        """Return once something is so; AssertionError after WAIT_S."""
        deadline = time.monotonic() + WAIT_S
        while not is_so(self.read()):
            if time.monotonic() > deadline:
                tails = "\n".join(one.log_tail(30) for one in self.members)
                raise AssertionError(f"in {WAIT_S:g} s not: {what}\n{tails}")
            time.sleep(0.05)

    def some_more(self, count: int = 200) -> None:
        """Return when so many more were acknowledged, and consumed."""
        found = self.read()
        acked, got = len(found.acked) + count, len(found.got) + count
        self.until(
            lambda now: len(now.acked) >= acked and len(now.got) >= got,
            f"{count} more",
        )

    def finish(self) -> Journals:
        """Send no more, consume all that was acknowledged, end in order."""
        running = [one for one in self.members if one.is_running]
        for member in running:
            member.signal(signal.SIGUSR1)
        self.until(lambda now: not now.missing, "all consumed")
        for member in running:
            member.stop()
        found = self.read()
        for member in running:
            left = found.stopped.get(member.name)
            assert left == [], f"{member.name} left {left}\n{member.log_tail(30)}"
            text = member.output_path.read_text(errors="replace")
            for sign in ("Unhandled", "AlreadyCalled", "defect", "Traceback"):
                problem = _first_with(text, sign)
                assert not problem, problem
        assert not found.missing, sorted(found.missing)[:5]
        assert not found.answered_twice, found.answered_twice[:5]
        return found


def _first_with(text: str, sign: str) -> str:
    """The lines around the first place of a sign, "" when it is not there."""
    at = text.find(sign)
    return "" if at < 0 else text[max(0, at - 300) : at + 1500]
