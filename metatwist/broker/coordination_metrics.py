"""Registration and the embedded coordinator in Prometheus' terms."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from metatwist.broker.registrar import Registrar
from metatwist.broker.registration_view import RegistrationView
from metatwist.coordination.embedded.service import EmbeddedCoordinator
from metatwist.coordination.interface import SessionState

_GAUGES = {
    "sessions": "sessions, the broker's own included",
    "connections": "open connections of clients",
    "connections_waiting": "connections with replies that wait for the disk",
    "watches": "watches that are set",
    "znodes": "znodes",
    "ephemerals": "znodes that end with a session",
}
_COUNTERS = {
    "sessions_expired": "sessions that expired",
    "packets_received": "requests received",
    "packets_sent": "replies and events sent",
}


@frozen
class CoordinationMetrics:
    """`registrar` is None without coordination, `embedded` with another kind of it."""

    registrar: Registrar | None = None
    embedded: EmbeddedCoordinator | None = None

    def collect(self) -> Iterator[Metric]:
        """As a Prometheus collector does."""
        if self.registrar is not None:
            yield from _registration(self.registrar.view())
        if self.embedded is not None:
            yield from _coordinator(self.embedded)


def _registration(view: RegistrationView) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "metatwist_coordination_state", "1 for the session's state", labels=["state"]
    )
    for one in SessionState:
        state.add_metric([one.value], float(one.value == view.state))
    yield state
    repairs = CounterMetricFamily(
        "metatwist_registration_repairs",
        "registered nodes that were not as they had been left",
        labels=["fault"],
    )
    for fault, count in view.repairs.items():
        repairs.add_metric([fault], count)
    yield repairs
    others = view.other_brokers_count
    lost = int(view.problem is not None)
    text = "1 when clients do not find it, or cannot use the coordinator in it"
    yield gauge("registration_problem", text, lost)
    yield gauge("registered_nodes", "nodes that are registered", view.registered_nodes)
    yield gauge("other_brokers", "other masters in the same tree", others)
    if view.last_pass_age_s is not None:
        text = "time since all nodes were last read"
        yield gauge("registration_pass_age_seconds", text, view.last_pass_age_s)


def _coordinator(embedded: EmbeddedCoordinator) -> Iterator[Metric]:
    text = "1 while changes wait, since the disk is full"
    yield gauge("coordinator_stalled", text, float(embedded.stalled))
    text = "1 when it answers nobody until a restart, since the disk failed"
    yield gauge("coordinator_failed", text, float(embedded.failed))
    numbers = embedded.numbers
    if numbers is None:
        return
    for name, text in _GAUGES.items():
        yield gauge(f"coordinator_{name}", text, getattr(numbers, name))
    for name, text in _COUNTERS.items():
        yield CounterMetricFamily(
            f"metatwist_coordinator_{name}", text, value=getattr(numbers, name)
        )


def gauge(name: str, text: str, value: float) -> Metric:
    """A number without labels."""
    return GaugeMetricFamily(f"metatwist_{name}", text, value=value)
