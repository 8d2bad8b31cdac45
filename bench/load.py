"""Runs of the load generator `metaload`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from attrs import field, frozen
from rows import GET_BYTES, PARTITIONS, Row

RUN_TIMEOUT_S = 120


class LoadError(Exception):
    """metaload failed, or a reply was not the expected one; the text is its own."""


@frozen
class LoadResult:
    """One measured run.

    Attributes:
        amount: messages put, or bytes got.
        seconds: of wall clock.
        latency_ms: by name, `p50`, `p99`, `p999`, `max`; empty for a get.
        cpu_s: processor seconds of the server meanwhile.
    """

    amount: int
    seconds: float
    latency_ms: dict[str, float] = field(factory=dict)
    cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        """Messages, or bytes, a second."""
        return self.amount / max(self.seconds, 1e-4)


@frozen
class LoadGenerator:
    """The metaload program."""

    program: Path

    def put(self, port: int, row: Row, messages: int) -> LoadResult:
        """Put `messages` as `row` says.

        Raises:
            LoadError: a put was refused or lost.
        """
        options = {"-c": row.connections, "-d": row.depth, "-s": row.body_bytes}
        said = self._run("put", port, row.topic, {**options, "-n": messages})
        latency_ms = {
            name: float(said[f"{name}_ms"]) for name in ("p50", "p99", "p999", "max")
        }
        return LoadResult(int(said["messages"]), float(said["seconds"]), latency_ms)

    def get_all(self, port: int, row: Row, passes: int) -> LoadResult:
        """Read every partition of the row's topic to its end, `passes` times.

        Raises:
            LoadError: a get failed.
        """
        options = {"-c": row.connections, "-m": GET_BYTES}
        said = [self._run("get", port, row.topic, options) for _ in range(passes)]
        amount = sum(int(one["bytes"]) for one in said)
        return LoadResult(amount, sum(float(one["seconds"]) for one in said))

    def _run(
        self, mode: str, port: int, topic: str, options: dict[str, int]
    ) -> dict[str, float]:
        options = {"-p": port, "-P": PARTITIONS, **options}
        command = [str(self.program), mode, "-t", topic]
        command += [
            word for key, value in options.items() for word in (key, f"{value}")
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            raise LoadError(f"metaload took over {RUN_TIMEOUT_S} s") from error
        if done.returncode:
            said = (done.stderr + done.stdout).strip()
            raise LoadError(f"{' '.join(command[1:])}: {said}")
        result: dict[str, float] = json.loads(done.stdout)
        return result
