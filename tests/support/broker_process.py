"""`twistd metaq` as a real process on loopback, for tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from metatwist.cli.control_client import ControlClient

from .child_process import ChildProcess, answers_version

ROOT = Path(__file__).resolve().parent.parent.parent
MINIMAL_INI = """\
[system]
brokerId=0
hostName=127.0.0.1
numPartitions=4
unflushThreshold=0
unflushInterval=10000
maxSegmentSize=1024*1024*1024
maxTransferSize=1024*1024
[topic=test]
"""


class BrokerProcess(ChildProcess):
    """The broker of the Python that runs the tests, with files below `work_dir`.

    `ini` is the text of server.ini. Port and data directory come from the environment
    and win over it, as does what `environ` adds, for instance
    `{"METATWIST_SYSTEM_stat": "true"}`. There is no coordinator unless `environ` names
    one, for instance `{"METATWIST_METATWIST_coordinator": "ensemble"}`. The same data
    serves again after `stop` or `kill`. Filters belong into `filter_dir`, which must
    exist before the start.
    """

    def __init__(
        self,
        work_dir: Path,
        ini: str = MINIMAL_INI,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(work_dir)
        self.data_dir = self.work_dir / "data"
        self.filter_dir = self.work_dir / "provided"
        self.ini_path = self.work_dir / "conf" / "server.ini"
        self.ini_path.parent.mkdir(exist_ok=True)
        self.ini_path.write_text(ini)
        self._environ = dict(environ or {})

    @property
    def address(self) -> str:
        """The URI that it publishes."""
        return f"meta://127.0.0.1:{self.port}"

    def admin(self, verb: str, **arguments: object) -> object:
        """Run an admin verb and return its result; raises as `ControlClient.call`."""
        return ControlClient(self.data_dir).call(verb, **arguments)

    def _argv(self) -> list[str]:
        twistd = Path(sys.executable).parent / "twistd"
        options = ["--nodaemon", "--pidfile=", "metaq", "-f", str(self.ini_path)]
        return [str(twistd), *options]

    def _environment(self) -> dict[str, str]:
        inherited = os.environ.get("PYTHONPATH")
        return {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{inherited}" if inherited else str(ROOT),
            "METATWIST_SYSTEM_dataPath": str(self.data_dir),
            "METATWIST_METATWIST_brokerEndpoint": (
                f"tcp:{self.port}:interface=127.0.0.1"
            ),
            "METATWIST_METATWIST_coordinator": "none",
            **self._environ,
        }

    def _answers(self) -> bool:
        return answers_version(self.port)
