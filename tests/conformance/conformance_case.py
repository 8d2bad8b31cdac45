"""Fixture F of spec wire-protocol 8, and how its checks are put to a broker.

The checks speak of fresh brokers and a topic `test`. One process serves many of them:
each runs on a topic of its own, of the same length and with the same settings, and
`test` in requests and answers stands for it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.conformance.requests import CHECKS
from tests.support.broker_process import BrokerProcess

OPEN_S = 0.3
ANSWER_S = 20
FIXTURE_INI = """\
[system]
brokerId=5
hostName=127.0.0.1
numPartitions=1
unflushThreshold=0
unflushInterval=10000
maxSegmentSize=4096
maxTransferSize=1048576
updateConsumerOffsets=false
[zookeeper]
zk.zkEnable=false
[topic=test]
numPartitions=3
stat=true
[topic=wild*]
[topic=lazy]
unflushThreshold=1000
unflushInterval=10000
[topic=nostat]
"""
_TOPICS_OF_CHECKS = """\
[topic=t*]
numPartitions=3
stat=true
group.gf=conformance_filters.starts_with_a
group.gt=conformance_filters.Throws
group.gx=conformance_filters.missing
"""
SHARED_INI = FIXTURE_INI + _TOPICS_OF_CHECKS
_FILTERS = """\
def starts_with_a(group, record):
    return record.body.startswith(b"A")


class Throws:
    def accept(self, group, record):
        raise RuntimeError("this filter always raises")
"""
_NUMBER = re.compile("_([0-9]{3}[a-z]?)_")


class Peer:
    """A client that keeps the bytes of what it gets."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def send(self, data: bytes) -> None:
        """Send as it stands."""
        self.socket.sendall(data)

    def reply(self) -> bytes:
        """The bytes of the next reply, header and body; EOFError if it never comes."""
        while b"\r\n" not in self._received:
            self._receive()
        header = self._received.partition(b"\r\n")[0]
        end = len(header) + 2 + int(header.split(b" ")[-2])
        while len(self._received) < end:
            self._receive()
        reply, self._received = self._received[:end], self._received[end:]
        return reply

    def _receive(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError(f"closed after {self._received!r}")
        self._received += data

    def until_closed(self) -> bytes:
        """All that comes until the broker closes."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                self._receive()
        return self._received

    def is_silent(self, for_s: float = OPEN_S) -> bool:
        """True when the connection stays open and nothing is received."""
        self.socket.settimeout(for_s)
        try:
            self._receive()
        except TimeoutError:
            return not self._received
        except EOFError:
            return False
        finally:
            self.socket.settimeout(ANSWER_S)
        return False


@pytest.mark.process
class ConformanceCase(SynchronousTestCase):
    """Runs one broker for the class; `ini` and `environ` configure it."""

    ini = SHARED_INI
    environ: ClassVar[Mapping[str, str]] = {}
    broker: ClassVar[BrokerProcess]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the broker, with the filters at hand."""
        work_dir = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, work_dir)
        cls.broker = BrokerProcess(work_dir, cls.ini, cls.environ)
        cls.broker.filter_dir.mkdir()
        (cls.broker.filter_dir / "conformance_filters.py").write_text(_FILTERS)
        cls.broker.start()
        cls.addClassCleanup(cls.broker.stop)

    def setUp(self) -> None:
        """A topic for this check alone where the broker has such topics."""
        number = _NUMBER.search(self._testMethodName)
        own = number is not None and _TOPICS_OF_CHECKS in self.ini
        self.topic = f"t{number[1][-3:]}" if own and number else "test"

    def peer(self) -> Peer:
        """A new connection, closed when the test has ended."""
        peer = Peer(self.broker.port)
        self.addCleanup(peer.socket.close)
        return peer

    def own(self, request: bytes) -> bytes:
        """A request about `test`, now about this check's topic."""
        return request.replace(b" test", f" {self.topic}".encode(), 1)

    def as_test(self, reply: bytes) -> bytes:
        """An answer about this check's topic, as if `test` had been meant."""
        return reply.replace(self.topic.encode(), b"test")

    def ask(self, request: bytes, peer: Peer | None = None) -> bytes:
        """The reply to one request, on a new connection if none is given."""
        peer = peer or self.peer()
        peer.send(self.own(request))
        return self.as_test(peer.reply())

    def check(self, key: str, peer: Peer | None = None) -> bytes:
        """The reply to what a check sends."""
        return self.ask(CHECKS[key].data, peer)

    def put(self, body: bytes, partition: int = 0) -> bytes:
        """The reply to a put without checksum."""
        head = f"put test {partition} {len(body)} 0 1\r\n".encode()
        return self.ask(head + body)

    def close_partition(self, number: int) -> None:
        """As an operator does it."""
        self.broker.admin(
            "close-partitions", topic=self.topic, first=number, last=number
        )

    def assert_closes(self, *keys: str) -> None:
        """What these checks send is answered by a close, without a byte."""
        for key in keys:
            peer = self.peer()
            peer.send(self.own(CHECKS[key].data))
            self.assertEqual(peer.until_closed(), b"", key)

    def assert_result(
        self, reply: bytes, code: int, opaque: int, pattern: bytes
    ) -> re.Match[bytes]:
        """A whole `result` whose body matches, and whose length is right."""
        header, _, body = reply.partition(b"\r\n")
        self.assertEqual(header, b"result %d %d %d" % (code, len(body), opaque))
        match = re.fullmatch(pattern, body, re.DOTALL)
        assert match is not None, body
        return match
