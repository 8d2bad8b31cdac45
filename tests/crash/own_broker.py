"""The broker process of `tests.support`, with settings that change between starts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.broker_process import BrokerProcess

Section = Mapping[str, str | int]
_DEFAULTS: Section = {
    "brokerId": 0,
    "hostName": "127.0.0.1",
    "numPartitions": 4,
    "unflushThreshold": 0,
    "unflushInterval": 10000,
    "maxSegmentSize": 1024 * 1024 * 1024,
    "maxTransferSize": 1024 * 1024,
}


class OwnBroker(BrokerProcess):
    """A broker of group commit with 4 partitions, but for what is laid over that.

    `topics`, `system`, `metatwist` and `zookeeper` may be changed between starts. What
    is in `environ` wins.
    """

    def __init__(
        self,
        work_dir: Path,
        topics: Mapping[str, Section] | None = None,
        system: Section | None = None,
        metatwist: Section | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(work_dir, environ=environ)
        self.topics: dict[str, Section] = dict(topics or {"test": {}})
        self.system: dict[str, str | int] = dict(system or {})
        self.metatwist: dict[str, str | int] = dict(metatwist or {})
        self.zookeeper: dict[str, str | int] = {}

    def server_ini(self) -> str:
        """The whole text of server.ini."""
        sections: dict[str, Mapping[str, object]] = {
            "system": {**_DEFAULTS, **self.system},
            "metatwist": self.metatwist,
        }
        if self.zookeeper:
            sections["zookeeper"] = self.zookeeper
        for name, values in self.topics.items():
            sections[f"topic={name}"] = values
        return "".join(
            f"[{section}]\n"
            + "".join(f"{key}={value}\n" for key, value in keys.items())
            for section, keys in sections.items()
        )

    def write_ini(self) -> None:
        """Write server.ini as it is now; every start does it too."""
        self.ini_path.write_text(self.server_ini())

    def argv(self, *more: str) -> list[str]:
        """The command of a start, with `more` options behind."""
        return [*super()._argv(), *more]

    def _argv(self) -> list[str]:
        self.write_ini()
        return super()._argv()

    def run_once(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Start with `more` options a process that is expected to end by itself."""
        self.write_ini()
        return self._run(self.argv(*more))

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            env=self._environment(),
            cwd=self.work_dir,
        )

    def begin(self) -> None:
        """Start the process without waiting for anything."""
        with open(self.output_path, "ab") as output:
            self._process = subprocess.Popen(
                self._argv(),
                cwd=self.work_dir,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, timeout_s: float = 60) -> int:
        """The exit code, negative for a signal, once the process has ended."""
        assert self._process is not None
        code = self._process.wait(timeout_s)
        self._process = None
        return code

    def output(self) -> str:
        """All that it printed, over all starts."""
        if not self.output_path.exists():
            return ""
        return self.output_path.read_text(errors="replace")

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `metatwist admin` on this broker's data."""
        program = str(Path(sys.executable).with_name("metatwist"))
        return self._run([program, "admin", "--data", str(self.data_dir), *arguments])

    def cli_json(self, *arguments: str) -> Any:
        """The result of a verb; AssertionError when it is refused."""
        done = self.cli("--json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
