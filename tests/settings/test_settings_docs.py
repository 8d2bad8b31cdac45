"""The operators' page says what the key tables say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import fields
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.settings.key import Key
from metatwist.broker.settings.model import (
    BrokerSettings,
    TopicSettings,
    ZooKeeperSettings,
)
from metatwist.broker.settings.schema import SECTIONS, TOPIC

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def row(key: Key) -> str:
    """The row of one key in the tables of the page."""
    default = key.default_note or f"`{key.default}`"
    if key.required:
        default = "**required**"
    name = key.name + "<name>" if key.per_value else key.name
    per_topic = "yes" if key.per_topic or key.per_value else ""
    cells = (f"`{name}`", key.kind, default, per_topic, key.reload, key.help)
    return "| " + " | ".join(cells) + " |"


def rows(keys: Iterable[Key]) -> list[str]:
    """The rows of a table, in the order of the keys."""
    return [row(key) for key in keys]


class PageTests(SynchronousTestCase):
    """docs/configuration.md."""

    def test_tables(self) -> None:
        """Each key has one row, with type, default, scope, reload and meaning."""
        wanted = [row for keys in SECTIONS.values() for row in rows(keys)]
        wanted += rows(key for key in TOPIC if key.per_value)
        lines = PAGE.read_text(encoding="utf-8").splitlines()
        found = [x for x in lines if x.startswith("| `") and x.count("|") == 7]
        self.assertEqual(sorted(found), sorted(wanted))

    def test_every_key_has_a_field(self) -> None:
        """Each key of a table is an attribute of the settings."""
        broker = {field.name for field in fields(BrokerSettings)}
        topic = {field.name for field in fields(TopicSettings)}
        zookeeper = {field.name for field in fields(ZooKeeperSettings)}
        for section, keys in {**SECTIONS, "topic": TOPIC}.items():
            for key in keys:
                owner = zookeeper if section == "zookeeper" else broker
                owner = topic if key.per_topic or key.per_value else owner
                self.assertIn(key.field, owner, key.name)

    def test_rows_are_complete(self) -> None:
        """A key is required with an example, or has a default in some form."""
        for keys in (*SECTIONS.values(), TOPIC):
            for key in keys:
                given = (key.example is not None, key.default is not None)
                self.assertEqual(given[0], key.required, key.name)
                self.assertEqual(sum(given) + bool(key.default_note), 1, key.name)
                self.assertNotIn("|", key.help)

    def test_kinds_are_explained(self) -> None:
        """The page explains each type that a table uses."""
        page = PAGE.read_text(encoding="utf-8")
        kinds = {key.kind for keys in (*SECTIONS.values(), TOPIC) for key in keys}
        for kind in kinds:
            self.assertIn(f"* **{kind}**: ", page)
