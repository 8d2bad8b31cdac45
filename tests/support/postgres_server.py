"""Debian's PostgreSQL as a child process on loopback.

`find_postgres` says why it cannot run here; ask it before starting one. It lets the
user `postgres` in without a password.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path
from typing import Any

from .child_process import STOP_TIMEOUT_S
from .database_server import DatabaseServer

HOW_TO_GET_POSTGRES = "needs Debian's PostgreSQL: apt-get install postgresql"
_VERSIONS = Path("/usr/lib/postgresql")


def find_postgres() -> str | None:
    """Why PostgreSQL cannot run here, or None."""
    return HOW_TO_GET_POSTGRES if _programs() is None else None


def _programs() -> Path | None:
    found = [one.parent for one in _VERSIONS.glob("*/bin/initdb")]
    return max(found, key=lambda one: float(one.parent.name), default=None)


class PostgresServer(DatabaseServer):
    """One PostgreSQL that does not sync."""

    user = "postgres"

    @property
    def connect(self) -> dict[str, Any]:
        """What `psycopg.connect` wants."""
        place = {"host": "127.0.0.1", "port": self.port}
        return {**place, "user": "postgres", "dbname": "postgres"}

    def query(self, sql: str, *values: object) -> list[Any]:
        """Run a statement of its own transaction."""
        import psycopg

        with psycopg.connect(
            **self.connect, autocommit=True, connect_timeout=5
        ) as connection:
            cursor = connection.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """See ChildProcess; makes its files the first time."""
        if not self.data_dir.exists():
            options = ["--auth=trust", "--username=postgres", "--no-sync"]
            where = [f"--pgdata={self.data_dir}", "--encoding=UTF8", "--locale=C"]
            self.prepare([f"{_programs()}/initdb", *where, *options])
        super().start()

    def stop(self) -> None:
        """Stop in order; clients are disconnected."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_S)
        super().stop()

    def _argv(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "16MB",
            "max_connections": "20",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        program = [f"{_programs()}/postgres", "-D", str(self.data_dir)]
        return self.as_user([*program, "-p", str(self.port), *options])

    def _answers(self) -> bool:
        import psycopg

        try:
            self.query("SELECT 1")
        except psycopg.Error:
            return False
        return True
