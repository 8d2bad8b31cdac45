"""What the databases of tests have in common: another user than root, files of his."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .child_process import ChildProcess, PeerError

PREPARE_TIMEOUT_S = 60


class DatabaseServer(ChildProcess):
    """A database that refuses to run as root; a base class.

    Attributes:
        user: who runs it when root runs the tests; `nobody` where that one is missing.
        data_dir: its files, kept over restarts.
        temp_dir: its own, as MariaDB clears up in that of others when it starts.
    """

    user = "nobody"

    def __init__(self, work_dir: Path) -> None:
        super().__init__(work_dir)
        self.data_dir = self.work_dir / "data"
        self.temp_dir = self.work_dir / "tmp"

    def as_user(self, argv: Sequence[str]) -> list[str]:
        """The same command, as somebody who is not root."""
        if os.getuid() != 0:
            return list(argv)
        account = _account(self.user)
        ids = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}"]
        return ["setpriv", *ids, "--clear-groups", "--", *argv]

    def prepare(self, argv: Sequence[str]) -> None:
        """Make the directories and run a command, as that user, that fills them.

        Raises:
            PeerError: it failed; the text has its output.
        """
        for directory in (self.data_dir, self.temp_dir):
            directory.mkdir()
            if os.getuid() == 0:
                account = _account(self.user)
                shutil.chown(directory, account.pw_uid, account.pw_gid)
        if os.getuid() == 0:
            self._let_others_pass()
        done = subprocess.run(
            self.as_user(argv),
            cwd=self.data_dir,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PREPARE_TIMEOUT_S,
        )
        if done.returncode != 0:
            output = (done.stdout + done.stderr).decode(errors="replace")
            raise PeerError(f"{argv[0]} failed:\n{output[-2000:]}")

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "TMPDIR": str(self.temp_dir)}

    def _let_others_pass(self) -> None:
        # Temporary directories are closed to other users.
        top = Path(tempfile.gettempdir()).resolve()
        for above in (self.work_dir, *self.work_dir.parents):
            if top in above.parents:
                above.chmod(above.stat().st_mode | 0o011)


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        return pwd.getpwnam("nobody")
