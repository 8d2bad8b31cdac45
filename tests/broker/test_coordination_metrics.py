"""Coordination in the metrics, in Prometheus' text format."""

from __future__ import annotations

from typing import Any, cast

from registrar_case import RegistrarCase
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.coordination_metrics import CoordinationMetrics
from metatwist.broker.metrics import BrokerCollector
from metatwist.coordination.embedded.numbers import TreeNumbers
from metatwist.coordination.embedded.service import (
    EmbeddedCoordinator,
    EmbeddedSettings,
)
from tests.support.broker_parts import BrokerParts


class ScriptedCoordinator:
    """Says what an EmbeddedCoordinator would say of itself."""

    def __init__(self) -> None:
        self.stalled = self.failed = False
        self.numbers = TreeNumbers(
            sessions=1,
            connections=2,
            connections_waiting=3,
            watches=4,
            znodes=5,
            ephemerals=6,
            sessions_expired=7,
            packets_received=8,
            packets_sent=9,
        )


def samples(parts: BrokerParts, metrics: CoordinationMetrics) -> dict[str, float]:
    """By name with labels: what a scrape of the broker reads."""
    text = BrokerCollector(parts.numbers, parts.topics, metrics).text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    split = [line.rpartition(" ") for line in lines]
    return {name: float(value) for name, _, value in split}


class RegistrationTests(RegistrarCase):
    """The registration."""

    def samples(self) -> dict[str, float]:
        """As a scrape reads them now."""
        return samples(self.parts, CoordinationMetrics(self.registrar))

    def test_registered(self) -> None:
        """State, nodes, others and the age of the last pass."""
        self.register()
        self.create("ids/9/master", b"meta://nine:1")
        self.wait(10)
        self.clock.advance(3)
        found = self.samples()
        for name, value in (
            ('coordination_state{state="connected"}', 1),
            ('coordination_state{state="suspended"}', 0),
            ("registered_nodes", 6),
            ("registration_problem", 0),
            ("other_brokers", 1),
            ("registration_pass_age_seconds", 3),
        ):
            self.assertEqual(found[f"metatwist_{name}"], value, name)

    def test_repairs(self) -> None:
        """Repairs are counted by what was wrong."""
        self.register()
        self.delete("topics/t/5-m")
        self.overwrite("topics-pub/t/5-m", b"x")
        self.wait(10)
        found = self.samples()
        repairs = "metatwist_registration_repairs_total"
        self.assertEqual(found[f'{repairs}{{fault="missing"}}'], 1)
        self.assertEqual(found[f'{repairs}{{fault="wrong data"}}'], 1)
        self.assertEqual(found[f'{repairs}{{fault="unwanted"}}'], 0)

    def test_problem(self) -> None:
        """A problem is a 1; the age is absent before the first pass."""
        found = self.samples()
        self.assertEqual(found["metatwist_registration_problem"], 1)
        self.assertEqual(found['metatwist_coordination_state{state="connecting"}'], 1)
        self.assertNotIn("metatwist_registration_pass_age_seconds", found)


class CoordinatorTests(SynchronousTestCase):
    """The embedded coordinator."""

    def setUp(self) -> None:
        self.parts = BrokerParts(self)
        self.coordinator = ScriptedCoordinator()

    def samples(self, embedded: Any) -> dict[str, float]:
        """Of the coordinator, without the prefix."""
        metrics = CoordinationMetrics(None, cast(EmbeddedCoordinator, embedded))
        prefix = "metatwist_coordinator_"
        found = samples(self.parts, metrics)
        return {
            name[len(prefix) :]: value
            for name, value in found.items()
            if name.startswith(prefix)
        }

    def test_numbers(self) -> None:
        """Each number under its name; those since the start are counters."""
        self.assertEqual(
            self.samples(self.coordinator),
            {
                "stalled": 0,
                "failed": 0,
                "sessions": 1,
                "connections": 2,
                "connections_waiting": 3,
                "watches": 4,
                "znodes": 5,
                "ephemerals": 6,
                "sessions_expired_total": 7,
                "packets_received_total": 8,
                "packets_sent_total": 9,
            },
        )

    def test_disk(self) -> None:
        """A full disk and one that failed are told apart, as 0 or 1."""
        self.coordinator.stalled = True
        found = self.samples(self.coordinator)
        self.assertEqual((found["stalled"], found["failed"]), (1, 0))
        self.coordinator.stalled, self.coordinator.failed = False, True
        found = self.samples(self.coordinator)
        self.assertEqual((found["stalled"], found["failed"]), (0, 1))

    def test_not_started(self) -> None:
        """One that does not listen yet has no numbers."""
        settings = EmbeddedSettings(None, "tcp:0:interface=127.0.0.1")
        found = self.samples(EmbeddedCoordinator(Clock(), settings))
        self.assertEqual(found, {"stalled": 0, "failed": 0})

    def test_none(self) -> None:
        """Without coordination there is no such metric at all."""
        found = samples(self.parts, CoordinationMetrics())
        for name in found:
            for word in ("coordination", "coordinator", "registration"):
                self.assertNotIn(word, name)
