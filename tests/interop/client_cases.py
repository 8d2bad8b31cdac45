"""What must hold for unmodified Java clients, whatever they find the broker by."""

from __future__ import annotations

from collections import defaultdict

from .client_case import NAMES, JavaClientCase
from .java_driver import Body
from .systems import TOPIC
from .traffic import Acknowledged, Traffic

MESSAGES = [
    Body(b"plain"),
    Body(b""),
    Body(b"", ""),
    Body(b"attribute", "red"),
    Body(bytes(range(256)) * 1000, "naïve 中文"),
    *(Body(b"number %d" % number) for number in range(30)),
]


class ClientCases(JavaClientCase):
    """To be inherited, with `make_system`."""

    def test_sends_and_browses(self) -> None:
        """What is sent, in turn and by callback, with attributes and without, lies
        where the answers say, and the topic browser reads all of it in order."""
        producer = self.producer()
        self.assertEqual(producer.partitions(TOPIC), NAMES)
        outcomes = producer.send(TOPIC, MESSAGES)
        outcomes += producer.send_with_callback(TOPIC, MESSAGES)
        self.assertEqual([one for one in outcomes if not one.success], [])
        by_partition = defaultdict(list)
        for message, sent in zip(MESSAGES * 2, outcomes, strict=True):
            by_partition[sent.partition].append(Acknowledged(message, sent))
        self.assertEqual(sorted(by_partition), NAMES)
        expected = []
        for name in NAMES:
            stored = sorted(by_partition[name], key=lambda one: one.sent.offset)
            begins = [0, *(one.next_offset for one in stored)]
            self.assertEqual([one.sent.offset for one in stored], begins[:-1])
            expected += [(one.sent.id, one.message) for one in stored]
        browsed = producer.browse(TOPIC)
        found = [(one.id, Body(one.body, one.attribute)) for one in browsed]
        self.assertEqual(found, expected)

    def test_group_comes_and_goes(self) -> None:
        """Three consumers join and leave under traffic: after each change every
        partition has the one owner that it should, everything sent is received, and
        in the end everything is committed and nobody owns anything."""
        with Traffic(self.producer(), TOPIC) as traffic:
            sessions = {}
            for name in ("a", "b", "c"):
                sessions[name] = self.join(name)
                self.assert_shared(list(sessions))
            sessions.pop("a").close()
            self.assert_shared(["b", "c"])
            sessions["a"] = self.join("a")
            self.assert_shared(["a", "b", "c"])
            sessions.pop("b").close()
            self.assert_shared(["a", "c"])
        self.assertEqual(traffic.failed, [])
        self.assert_received(traffic, ["a", "b", "c"])
        ends = {one.sent.partition: one.next_offset for one in traffic.acknowledged}
        # The Java client may close between a message and its mark, so wait before.
        self.wait_until(lambda: self.tree.offsets() == ends, "all is committed")
        for session in sessions.values():
            session.close()
        self.assert_shared([])
        self.assertEqual(self.tree.offsets(), ends)

    def fail_over(self, kill: bool) -> None:
        """Restart the broker under traffic."""
        self.join("a")
        self.join("b")
        with Traffic(self.producer(), TOPIC) as traffic:
            self.wait_until(lambda: len(traffic.acknowledged) > 20, "messages flow")
            old_session = self.registered_by()
            if kill:
                self.system.broker.kill()
                self.system.start_after_kill()
            else:
                self.system.broker.stop()
                self.system.broker.start()
            self.wait_until(
                lambda: self.registered_by() not in (None, old_session),
                "the broker is registered by a new session",
            )
            before = len(traffic.acknowledged)
            self.wait_until(
                lambda: len(traffic.acknowledged) > before + 20,
                "messages flow again",
            )
        self.assert_shared(["a", "b"])
        self.assert_received(traffic, ["a", "b"])
        self.assertTrue(self.driver.events("disconnected", "producer"))

    def test_orderly_restart(self) -> None:
        """After a stop and a start sends and receipts go on by themselves, and nothing
        that was acknowledged is missed."""
        self.fail_over(kill=False)

    def test_kill_and_restart(self) -> None:
        """After SIGKILL and an immediate start sends and receipts go on by themselves,
        and nothing that was acknowledged is missed."""
        self.fail_over(kill=True)
