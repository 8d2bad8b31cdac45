"""Settings that cannot be are refused where they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

import metatwist.client as public
from metatwist.client import (
    ConnectionSettings,
    OneWaySettings,
    OrderedSettings,
    StoreLimits,
)

ZERO_IS_FINE = ("retries", "remembered", "few", "most_wait_s", "most_connect_s")


def _ordered(**more: Any) -> OrderedSettings:
    return OrderedSettings({"orders": "0:4"}, "parked.sqlite3", **more)


MADE: list[tuple[type, Callable[..., object]]] = [
    (StoreLimits, StoreLimits),
    (OneWaySettings, OneWaySettings),
    (OrderedSettings, _ordered),
    (ConnectionSettings, ConnectionSettings),
    (public.Backoff, public.Backoff),
    (public.ProducerSettings, public.ProducerSettings),
    (public.FetchSettings, public.FetchSettings),
    (public.DeliverySettings, public.DeliverySettings),
    (public.CommitSettings, public.CommitSettings),
    (public.RecoverySettings, public.RecoverySettings),
]


class NumbersTests(SynchronousTestCase):
    """Times, sizes and counts."""

    def numbers(self) -> list[tuple[str, Callable[..., object]]]:
        """Each of them, with what makes its settings."""
        found = [
            (one.name, make)
            for kind, make in MADE
            for one in attrs.fields(kind)
            if str(one.type).startswith(("int", "float"))
        ]
        self.assertGreater(len(found), 30)
        return found

    def test_negative(self) -> None:
        """None may be negative."""
        for name, make in self.numbers():
            with self.assertRaises(ValueError, msg=name):
                make(**{name: -1})

    def test_zero(self) -> None:
        """Few may be 0."""
        for name, make in self.numbers():
            if name in ZERO_IS_FINE:
                make(**{name: 0})
            else:
                with self.assertRaises(ValueError, msg=name):
                    make(**{name: 0})
