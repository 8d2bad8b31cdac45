"""Debian's MariaDB as a child process on loopback.

`find_mariadb` says why it cannot run here; ask it before starting one. It has a
database `offsets` and lets `root` in without a password.
"""

from __future__ import annotations

import shutil
from typing import Any

from .database_server import DatabaseServer

HOW_TO_GET_MARIADB = "needs Debian's MariaDB: apt-get install mariadb-server"
_DATABASE = "offsets"


def find_mariadb() -> str | None:
    """Why MariaDB cannot run here, or None."""
    if _program("mariadbd") is None or _program("mariadb-install-db") is None:
        return HOW_TO_GET_MARIADB
    return None


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


class MariaDbServer(DatabaseServer):
    """One MariaDB with small buffers."""

    user = "mysql"

    @property
    def connect(self) -> dict[str, Any]:
        """What `pymysql.connect` wants."""
        place = {"host": "127.0.0.1", "port": self.port}
        return {**place, "user": "root", "password": "", "database": _DATABASE}

    def query(self, sql: str, *values: object) -> list[Any]:
        """Run a statement of its own transaction."""
        return self._ask(self.connect, sql, values)

    def start(self) -> None:
        """See ChildProcess; makes its files the first time."""
        if not self.data_dir.exists():
            made = "--auth-root-authentication-method=normal"
            install = str(_program("mariadb-install-db"))
            common = ["--no-defaults", f"--datadir={self.data_dir}", made]
            self.prepare([install, *common, "--skip-test-db"])
        super().start()
        server = {**self.connect, "database": None}
        self._ask(server, f"CREATE DATABASE IF NOT EXISTS {_DATABASE}", ())

    @staticmethod
    def _ask(connect: dict[str, Any], sql: str, values: tuple[object, ...]) -> Any:
        import pymysql

        connection = pymysql.connect(**connect, autocommit=True, connect_timeout=5)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, values)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def _argv(self) -> list[str]:
        return self.as_user(
            [
                str(_program("mariadbd")),
                "--no-defaults",
                f"--datadir={self.data_dir}",
                "--bind-address=127.0.0.1",
                f"--port={self.port}",
                f"--socket={self.data_dir}/s",
                f"--pid-file={self.data_dir}/pid",
                "--innodb-buffer-pool-size=16M",
                "--innodb-log-file-size=8M",
                "--innodb-flush-log-at-trx-commit=2",
                "--skip-name-resolve",
            ]
        )

    def _answers(self) -> bool:
        import pymysql

        try:
            self._ask({**self.connect, "database": None}, "SELECT 1", ())
        except pymysql.Error:
            return False
        return True
