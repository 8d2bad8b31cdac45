"""Our own Java sources below `java/`, compiled into `build` once per content."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
import subprocess
from pathlib import Path

from ..support.child_process import PeerError
from .java_jars import INTEROP_DIR, LIB_DIR, fetch_jars

SOURCE_DIR = INTEROP_DIR / "java"
COMPILE_TIMEOUT_S = 120
HOW_TO_GET_JAVAC = "needs javac: apt-get install default-jdk-headless"


def why_no_compiler() -> str | None:
    """Why nothing can be compiled here, or None."""
    return HOW_TO_GET_JAVAC if shutil.which("javac") is None else None


@functools.cache
def compiled_driver() -> Path:
    """The folder of class files; compiles them when a source is new.

    Safe to call from several processes at once.

    Raises:
        PeerError: Maven or javac is missing or failed.
    """
    fetch_jars()
    sources = sorted(SOURCE_DIR.rglob("*.java"))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources))
    folder = LIB_DIR.parent / f"driver-{digest.hexdigest()[:16]}"
    with open(LIB_DIR.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _compile(sources, folder)
    return folder


def _compile(sources: list[Path], folder: Path) -> None:
    why_not = why_no_compiler()
    if why_not is not None:
        raise PeerError(why_not)
    for outdated in folder.parent.glob("driver-*"):
        shutil.rmtree(outdated)
    partial = folder.with_name(f"{folder.name}.partial")
    command = ["javac", "-Xlint:all", "-Werror", "--release", "11", "-d", str(partial)]
    command += ["-cp", f"{LIB_DIR}/*", *map(str, sources)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S
    )
    if done.returncode:
        raise PeerError(f"javac failed:\n{done.stdout}{done.stderr}")
    partial.rename(folder)
