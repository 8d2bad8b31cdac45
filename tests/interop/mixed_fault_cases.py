"""What becomes of a mixed group when a member stands still or the broker dies: cases to
inherit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from .client_case import GROUP
from .members.member_driver import MemberDriver
from .mixed_case import MixedCase
from .ownership import OwnershipRecord
from .systems import TOPIC
from .traffic import Traffic

ENOUGH = 20


class MixedFaultCases(MixedCase):
    """Two members of ours and one of Java, beside producers of both."""

    def begin(self, stack: ExitStack) -> list[Traffic]:
        """Members `ours`, `ours-too` and `java`, and traffic until the stack ends."""
        for name in ("ours", "ours-too"):
            self.consume(self.ours(name))
        self.consume(self.session("java"))
        senders = [self.ours("our-sender"), self.session("java-sender")]
        for sender in senders:
            sender.publish(TOPIC)
        traffics = [
            stack.enter_context(Traffic(sender, TOPIC, sender.name.encode()))
            for sender in senders
        ]
        self.settle("ours", "ours-too", "java")
        self.wait_until_flowing(traffics)
        return traffics

    def settle(self, *names: str) -> None:
        """Those come to own their shares."""
        self.wait_for_shares(dict.fromkeys(names, (TOPIC,)))

    def wait_until_flowing(self, traffics: Sequence[Traffic]) -> None:
        """More messages of each come to be acknowledged."""
        enough = [len(one.acknowledged) + ENOUGH for one in traffics]
        self.wait_until(
            lambda: all(
                len(one.acknowledged) >= its
                for one, its in zip(traffics, enough, strict=True)
            ),
            "messages flow",
        )

    def driver_of(self, name: str) -> MemberDriver:
        """The process of a member of ours."""
        for driver in self.drivers:
            if (
                isinstance(driver, MemberDriver)
                and driver.work_dir == self.work_dir(name).resolve()
            ):
                return driver
        raise KeyError(name)

    def test_frozen_member(self) -> None:
        """A member of ours that stands still for longer than its session loses its
        partitions to the others; awake again it fetches nothing of them, comes back,
        and no message is lost."""
        with ExitStack() as stack:
            record = stack.enter_context(
                OwnershipRecord(self.system.address, GROUP, [TOPIC])
            )
            traffics = self.begin(stack)
            frozen = self.driver_of("ours")
            frozen.freeze()
            self.settle("ours-too", "java")
            self.wait_until_flowing(traffics)
            frozen.thaw()
            self.settle("ours", "ours-too", "java")
            self.wait_until_flowing(traffics)
        for traffic in traffics:
            self.assertEqual(traffic.failed, [])
        self.wait_until_all_came(traffics, TOPIC)
        self.wait_until_committed(traffics, TOPIC)
        others = [one for one in self.deliveries() if one.member != f"{GROUP}_ours"]
        self.assertEqual(record.contradicted(others), [])
        its = [one for one in self.deliveries() if one.member == f"{GROUP}_ours"]
        self.assertEqual(record.contradicted(its), [])
        lost = [one for one in frozen.happened("Revoked") if "lost=True" in one["text"]]
        self.assertTrue(lost)

    def test_killed_broker(self) -> None:
        """After SIGKILL of the broker and its start all members get their shares back,
        messages flow again, and none that was acknowledged is lost."""
        with ExitStack() as stack:
            traffics = self.begin(stack)
            self.system.broker.kill()
            self.system.start_after_kill()
            self.wait_until_flowing(traffics)
            self.settle("ours", "ours-too", "java")
            self.wait_until_flowing(traffics)
        self.wait_until_all_came(traffics, TOPIC)
