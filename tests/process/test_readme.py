"""What the README shows is what happens."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.own_broker import OwnBroker
from tests.support.child_process import free_port

from .broker_case import BrokerCase

pytestmark = pytest.mark.process
README = Path(__file__).parents[2] / "README.md"


class FirstMessage(BrokerCase):
    """The first message of the README."""

    def test_as_printed(self) -> None:
        """The program puts and gets a message, and prints what the README says."""
        text = README.read_text(encoding="utf-8")
        found = re.search(r"<<'END'\n(.*?)\nEND\n(.*?)\n\$", text, re.DOTALL)
        assert found is not None, "the README shows no first message any more"
        program, printed = found.groups()
        broker = self.own_broker()
        broker.start()
        done = subprocess.run(
            [sys.executable, "-c", program.replace("8123", str(broker.port))],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        # The id differs with the time, in the reply and in the record.
        self.assertEqual(_without_id(done.stdout), _without_id(printed))


class PythonClient(BrokerCase):
    """The program with the client."""

    def test_prints(self) -> None:
        """It sends a message and gets it back."""
        text = README.read_text(encoding="utf-8")
        found = re.search(r"## Python client\n.*?```python\n(.*?)```", text, re.DOTALL)
        assert found is not None, "the README shows no client any more"
        port = free_port()
        broker = OwnBroker(
            self.directory / "broker",
            environ={"METATWIST_METATWIST_coordinator": "embedded"},
            metatwist={"coordinatorEndpoint": f"tcp:{port}:interface=127.0.0.1"},
        )
        self.addCleanup(broker.kill)
        broker.start()
        done = subprocess.run(
            [sys.executable, "-c", found[1].replace("2181", str(port))],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.stdout, done.stderr), ("b'hello'\n", ""))


def _without_id(text: str) -> list[str]:
    reply, value = text.strip().splitlines()
    payload, record = ast.literal_eval(reply), ast.literal_eval(value)
    header, _, stored = record.partition(b"\r\n")
    return [
        re.sub(r"\d{19}", "ID", repr(payload)),
        repr((header, stored[:8], stored[16:])),
    ]
