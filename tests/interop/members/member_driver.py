"""Our client beside the Java driver: a child process that takes the same requests.

    with MemberDriver(work / "member") as driver:
        session = driver.session("a", zookeeper.address)
        session.consume("group", ["test"])

Beside the events of the Java driver it tells `happened`: what the consumer tells its
user, by the name of its class, with the partitions that it names.
"""

from __future__ import annotations

import os
import signal
import sys

from ...support.broker_process import ROOT
from ..line_driver import LineDriver


class MemberDriver(LineDriver):
    """A process of the Python that runs the tests; a session of it is a MetaClient."""

    def _argv(self) -> list[str]:
        module = "tests.interop.members.twisted_member"
        return [sys.executable, "-m", module, str(self.work_dir)]

    def _environment(self) -> dict[str, str]:
        inherited = os.environ.get("PYTHONPATH")
        path = f"{ROOT}{os.pathsep}{inherited}" if inherited else str(ROOT)
        return {**os.environ, "PYTHONPATH": path}

    def freeze(self) -> None:
        """SIGSTOP: it stands still until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def happened(
        self, kind: str, session: str | None = None
    ) -> list[dict[str, object]]:
        """Its events of that class so far, in order."""
        found = self.events("happened", session)
        return [event for event in found if event["kind"] == kind]
