"""Released Java clients that a test steers: the driver in `java/` as a child process.

`find_driver` says why it cannot run here; ask it before starting one.

    with JavaDriver(work / "driver") as driver:
        session = driver.session("a", zookeeper.address)
        session.publish("test")
        sent = session.send("test", [Body(b"one"), Body(b"two", attribute="red")])
        session.consume("group", ["test"])
        ...  # session.received(), once it is there

One JVM holds many sessions; a session is a session factory of the Java client, with a
ZooKeeper session and broker connections of its own. Two consumers of one group need a
session each (spec client 4.1). The client hides a message from a listener that any
consumer of that group was given before in the same JVM (W20); a second driver shows it.
"""

from __future__ import annotations

import functools

from ..support.child_process import PeerError
from .driver_session import (
    Body,
    ClientZooKeeper,
    Consumption,
    DriverSession,
    Received,
    Sent,
)
from .java_jars import find_java
from .java_process import JavaProcess
from .java_sources import compiled_driver, why_no_compiler
from .line_driver import LineDriver

__all__ = [
    "Body",
    "ClientZooKeeper",
    "Consumption",
    "DriverSession",
    "JavaDriver",
    "PeerError",
    "Received",
    "Sent",
    "find_driver",
]


@functools.cache
def find_driver() -> str | None:
    """Compile the driver if need be; answer why it cannot run, or None."""
    why_not = find_java() or why_no_compiler()
    if why_not is None:
        try:
            compiled_driver()
        except PeerError as error:
            why_not = str(error)
    return why_not


class JavaDriver(LineDriver, JavaProcess):
    """A JVM with the driver; its sessions end with it."""

    def _class_path(self) -> list[str]:
        return [str(compiled_driver()), *super()._class_path()]

    def _command(self) -> list[str]:
        flags = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [*flags, "driver.Driver"]
