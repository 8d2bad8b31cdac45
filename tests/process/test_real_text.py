"""Real text in over ten connections, and out whole."""

from __future__ import annotations

import os
from itertools import chain

import pytest

from tests.crash.corpus import TOPIC, corpus_broker, lines, run, text_files

from .broker_case import BrokerCase

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]
MEGABYTES = int(os.environ.get("METATWIST_CORPUS_MEGABYTES", "20"))


class RealText(BrokerCase):
    """Python's own sources, every line a message; METATWIST_CORPUS_MEGABYTES says how
    much."""

    def test_every_line_comes_back(self) -> None:
        """Each of eight partitions gives back what was put into it, in order."""
        broker = corpus_broker(self.directory / "broker")
        self.addCleanup(broker.kill)
        broker.start()
        empty_and_long = [b"", bytes(3_000_000), b"\r\n"]
        text = lines(list(text_files()), MEGABYTES * 1_000_000)
        outcome = run(broker, chain(empty_and_long, text))
        self.assertGreaterEqual(outcome.megabytes, MEGABYTES)
        self.assertGreater(outcome.messages, MEGABYTES * 10_000)
        segments = list(broker.data_dir.glob(f"{TOPIC}-*/*.meta"))
        self.assertGreaterEqual(len(segments), 8)
