"""What a broker has to offer to be put under contract, and ways to ask it.

Brokers have the id 5, segments of 4096 bytes, a topic of three partitions for each
test, and a topic `idle` that nothing is sent to.
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.wire_client import put_request
from tests.testing.conversations import Answer, Conversation

BROKER_ID = 5
PARTITIONS = 3
SEGMENT_BYTES = 4096
MAX_TRANSFER_BYTES = 1 << 20


class BrokerCase(SynchronousTestCase):
    """What a broker under contract has to offer."""

    topic: str
    address: str

    def connect(self) -> Conversation:
        """A new connection, closed when the test has ended."""
        raise NotImplementedError

    def close_partition(self, partition: int) -> None:
        """Close a partition of the test's topic, as an operator does."""
        raise NotImplementedError

    # -- ways to ask --------------------------------------------------------------

    def ask(self, request: bytes, peer: Conversation | None = None) -> Answer:
        """The answer to a request, on a new connection if none is given."""
        peer = peer or self.connect()
        peer.send(request)
        return Answer.of(peer.reply())

    def put(self, body: bytes, partition: int = 0, flag: int = 0) -> Answer:
        """Put with a right checksum."""
        return self.ask(put_request(self.topic, partition, body, 1, flag))

    def stored(self, body: bytes, partition: int = 0, flag: int = 0) -> list[int]:
        """[id, partition, offset] of a put that is stored."""
        answer = self.put(body, partition, flag)
        self.assertEqual(answer.code, 200, answer)
        return [int(number) for number in answer.body.split(b" ")]

    def get(
        self, offset: int, max_size: int, partition: int = 0, topic: str = ""
    ) -> Answer:
        """Get as the group `g`."""
        name = topic or self.topic
        return self.ask(
            b"get %s g %d %d %d 9\r\n" % (name.encode(), partition, offset, max_size)
        )

    def offset(self, offset: int, partition: int = 0, topic: str = "") -> Answer:
        """Ask for the nearest offset."""
        name = topic or self.topic
        return self.ask(b"offset %s g %d %d 9\r\n" % (name.encode(), partition, offset))

    def poll(self, offset: int, wait_ms: int, opaque: int = 9) -> bytes:
        """A request to poll partition 0."""
        head = f"poll {self.topic} g 0 {offset} 1000 {wait_ms} {opaque}\r\n"
        return head.encode()

    def failed(self, partition: int, detail: str, topic: str = "") -> bytes:
        """The text of a put that failed."""
        name = topic or self.topic
        return (
            f"Put message to [broker '{self.address}'] [partition"
            f" '{name}-{partition}'] failed.Detail:{detail}"
        ).encode()

    def missing(self, partition: int, topic: str = "") -> Answer:
        """The answer where nothing is stored."""
        name = topic or self.topic
        text = f"The topic `{name}` in partition `{partition}` is not exists"
        return Answer(404, 9, text.encode())
