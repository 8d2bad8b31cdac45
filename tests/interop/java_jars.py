"""The released Java jars, fetched by Maven into `build/lib` once."""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
from pathlib import Path

from ..support.child_process import PeerError

INTEROP_DIR = Path(__file__).resolve().parent
LIB_DIR = INTEROP_DIR / "build" / "lib"
FETCH_TIMEOUT_S = 300
HOW_TO_GET_JAVA = "needs java and mvn: apt-get install default-jdk-headless maven"


@functools.cache
def find_java() -> str | None:
    """Fetch the jars if they are missing; answer why Java peers cannot run, or None."""
    if shutil.which("java") is None:
        return HOW_TO_GET_JAVA
    try:
        fetch_jars()
    except PeerError as error:
        return str(error)
    return None


def fetch_jars() -> None:
    """Fill `build/lib`; safe to call from several processes at once.

    Raises:
        PeerError: Maven is missing or failed.
    """
    LIB_DIR.parent.mkdir(exist_ok=True)
    with open(LIB_DIR.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not LIB_DIR.is_dir():
            _copy_dependencies()


def _copy_dependencies() -> None:
    if shutil.which("mvn") is None:
        raise PeerError(HOW_TO_GET_JAVA)
    partial = LIB_DIR.with_name("lib.partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = ["mvn", "-B", "-q", "-f", str(INTEROP_DIR / "pom.xml")]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"Maven took over {FETCH_TIMEOUT_S} s") from error
    if done.returncode:
        why = "\n".join((done.stdout + done.stderr).splitlines()[:3])
        raise PeerError(f"Maven cannot fetch the released Java broker: {why}")
    partial.rename(LIB_DIR)
