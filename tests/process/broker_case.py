"""A case with one broker process and a directory, both gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.crash.own_broker import OwnBroker, Section
from tests.support.wire_client import Read, WireClient, read_all

WAIT_S = 20


class BrokerCase(SynchronousTestCase):
    """`self.directory` is a fresh directory; brokers that `own_broker` makes end with
    the test."""

    def setUp(self) -> None:
        """Make the directory."""
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def own_broker(
        self,
        topics: Mapping[str, Section] | None = None,
        system: Section | None = None,
        metatwist: Section | None = None,
    ) -> OwnBroker:
        """A broker that has not been started."""
        broker = OwnBroker(self.directory / "broker", topics, system, metatwist)
        self.addCleanup(broker.kill)
        return broker

    def client(self, broker: OwnBroker) -> WireClient:
        """A connection that is closed with the test."""
        client = WireClient(broker.port)
        self.addCleanup(client.close)
        return client

    def read(self, broker: OwnBroker, topic: str, partition: int) -> list[Read]:
        """All records of a partition."""
        with WireClient(broker.port) as client:
            return list(read_all(client, topic, partition))

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        """Return once `is_so()`; fail with `what` after WAIT_S."""
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            if time.monotonic() > deadline:
                self.fail(f"still not so after {WAIT_S} s: {what}")
            time.sleep(0.02)

    def terminate(self, broker: OwnBroker) -> None:
        """SIGTERM, and the end in order: everything stopped, no error as exit code.

        `twistd` ends by the signal that it was sent, once the reactor has stopped.
        """
        os.kill(broker.pid, signal.SIGTERM)
        self.assertIn(broker.wait(), (0, -signal.SIGTERM))
        self.assertTrue(broker.output().rstrip().endswith("Server Shut Down."))
        self.assertIn("all that was acknowledged is on disk", broker.output())

    def assert_clean(self, broker: OwnBroker, partitions: int) -> None:
        """The last start found all partitions as an orderly stop leaves them."""
        found = broker.cli_json("recovery")
        summary, notable = found["summary"], found["partitions"]
        expected = {
            "partitions": partitions,
            "clean": partitions,
            "scanned_bytes": 0,
            "problems": [],
        }
        self.assertEqual((summary, notable), (expected, []))
