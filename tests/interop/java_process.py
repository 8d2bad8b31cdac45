"""One JVM of the released jars, with the flags that they need on Java 17."""

from __future__ import annotations

from pathlib import Path

from ..support.child_process import ChildProcess
from .java_jars import LIB_DIR

_JAVA_17_FLAGS = [
    flag
    for package in ("java.lang", "java.nio", "sun.nio.ch", "java.util")
    for flag in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")
]
_LOG4J = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%p] [%t] %d [%c] - %m%n
"""


class JavaProcess(ChildProcess):
    """A main class of the released jars; log4j writes to `log_path`."""

    @property
    def log_path(self) -> Path:
        """What log4j wrote, over all starts."""
        return self.work_dir / "java.log"

    def _command(self) -> list[str]:
        """The JVM's own flags, the main class and its arguments."""
        raise NotImplementedError

    def _class_path(self) -> list[str]:
        return [f"{LIB_DIR}/*"]

    def _argv(self) -> list[str]:
        log4j = self.work_dir / "log4j.properties"
        log4j.write_text(_LOG4J.format(log=self.log_path))
        common = ["java", *_JAVA_17_FLAGS, "-cp", ":".join(self._class_path())]
        common += [f"-Dlog4j.configuration=file:{log4j}"]
        common += [f"-Duser.home={self.work_dir}"]
        return common + self._command()

    def _log_paths(self) -> list[Path]:
        return [self.output_path, self.log_path]
