"""What docs/client.md says of names, settings and errors is so."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import attrs
from twisted.trial.unittest import SynchronousTestCase

import metatwist.client as public
from metatwist.client import ClientError, Event
from metatwist.client.settings import MIB
from tests.support.guide_page import EXAMPLES, GUIDE, examples, snippets, table_under

PAGE = GUIDE.read_text(encoding="utf-8")
NAMES = """
    AckRefused Acks Assigned Attempt Backoff BadRequest BrokerStats BrowseLimits
    BufferFull ByKey Claim ClientError ClientSettings ClientStopped Commit CommitFailed
    CommitSettings ConnectionLost ConnectionSettings Consumer ConsumerHooks
    ConsumerSettings ConsumerState CoordinatorOffsets CorruptRecord DeadLetterTopic
    DeliveryFailed DeliverySettings Drop DuplicateConsumer Event FetchFailed
    FetchSettings FileOffsets FilterFailed Forbidden GroupError GroupTrouble
    IOffsetStorage IRejection InvalidMessage KeptRange ListenerFailed ListenerTimedOut
    LocalStoreFailed MemoryOffsets Message MessageTooLarge MetaClient NoPartition
    NotConnected NotOwner NothingThere OffsetJumped OffsetOutOfRange OffsetRecord
    OffsetStorageFailed OneWayProducer OneWaySettings OrderedProducer OrderedSettings
    PartitionHalted PartitionName PartitionStopped Producer ProducerSettings PulledBatch
    RandomChoice ReceivedMessage RecoverStore RecoverySettings Rejected RejectionFailed
    RequestRefused RequestTimedOut Revoked RoundRobin Selector SelectorFailed SendResult
    ServerFailed ServerTimedOut ServerUnavailable SqlOffsets SqlSettings Start
    StopPartition StoreLimits Strategy Subscription ThreadAcks TopicBrowser
    TopicPartition UnexpectedReply WrongState Where broadcast_group in_thread_pool
    origin tls_options
"""
SETTINGS = (
    public.ClientSettings,
    public.ConnectionSettings,
    public.ProducerSettings,
    public.OrderedSettings,
    public.OneWaySettings,
    public.StoreLimits,
    public.ConsumerSettings,
    public.FetchSettings,
    public.DeliverySettings,
    public.CommitSettings,
    public.RecoverySettings,
    public.Backoff,
)
ANSWERING = (
    public.MetaClient,
    public.Producer,
    public.OrderedProducer,
    public.OneWayProducer,
    public.Consumer,
    public.PulledBatch,
    public.RecoverStore,
)


class PublicNames(SynchronousTestCase):
    """metatwist.client."""

    def test_all(self) -> None:
        """The public names are these, sorted, and nobody changes them unawares."""
        self.assertEqual(public.__all__, sorted(public.__all__))
        self.assertEqual(public.__all__, sorted(NAMES.split()))

    def test_documented(self) -> None:
        """Each name has a docstring or is explained where it is made."""
        for name in set(public.__all__) - {"Event", "Selector"}:
            self.assertTrue(inspect.getdoc(getattr(public, name)), name)

    def test_typed(self) -> None:
        """Type checkers may use the annotations."""
        marker = Path(public.__file__).parents[1] / "py.typed"
        self.assertTrue(marker.exists())


class GuideTests(SynchronousTestCase):
    """The page."""

    def test_examples(self) -> None:
        """It shows each example as it is in its file, which is short."""
        files = {one.name: one.read_text() for one in EXAMPLES.iterdir()}
        self.assertEqual(examples(PAGE), files)
        for name, text in files.items():
            self.assertLess(text.count("\n"), 45, name)

    def test_snippets_compile(self) -> None:
        """The other code is there to be run, see tests/process."""
        self.assertGreater(len(snippets(PAGE)), 8)

    def test_lines(self) -> None:
        """Prose keeps to 130 columns."""
        long = [
            line
            for line in PAGE.splitlines()
            if len(line) > 130 and not line.startswith("|")
        ]
        self.assertEqual(long, [])

    def test_links(self) -> None:
        """Each link leads to a file or a heading."""
        headings = {
            re.sub(r"[^\w -]", "", found).strip().lower().replace(" ", "-")
            for found in re.findall(r"^#+ (.*)$", PAGE, re.M)
        }
        for target in re.findall(r"\]\(([^)]+)\)", PAGE):
            path, _, heading = target.partition("#")
            if path:
                self.assertTrue((GUIDE.parent / path).exists(), target)
            else:
                self.assertIn(heading, headings)

    def test_settings(self) -> None:
        """The tables have each setting, with its default."""
        for kind in SETTINGS:
            rows = table_under(PAGE, f"### `{kind.__name__}`")
            told = {row[0].strip("`"): row[1].strip("`") for row in rows}
            expected = {one.name: one.default for one in attrs.fields(kind)}
            self.assertEqual(list(told), list(expected), kind.__name__)
            for name, cell in told.items():
                where = f"{kind.__name__}.{name}"
                self.assertEqual(_default(cell), _made(expected[name]), where)

    def test_settings_are_explained(self) -> None:
        """No row of these tables is without its meaning."""
        for kind in SETTINGS:
            for row in table_under(PAGE, f"### `{kind.__name__}`"):
                self.assertTrue(row[2], row)

    def test_errors(self) -> None:
        """The table is the tree, with what each error says of itself."""
        rows = table_under(PAGE, "## Errors")
        expected = list(_tree(ClientError, 0))
        self.assertEqual([tuple(row[:3]) for row in rows], expected)
        named = {row[0].strip("· `") for row in rows}
        self.assertEqual(named - set(public.__all__), set())

    def test_events(self) -> None:
        """The table has each event, with its attributes."""
        rows = table_under(PAGE, "## Events")
        expected = [
            (f"`{kind.__name__}`", ", ".join(f"`{a.name}`" for a in attrs.fields(kind)))
            for kind in get_args(Event)
        ]
        self.assertEqual([tuple(row[:2]) for row in rows], expected)

    def test_cancelling(self) -> None:
        """The table has each public method that answers a Deferred."""
        cells = [row[0] for row in table_under(PAGE, "## Cancelling")]
        told = " ".join(cells)
        answering = [
            f"{kind.__name__}.{name}"
            for kind in ANSWERING
            for name, member in vars(kind).items()
            if not name.startswith("_")
            and name != "stopService"
            and str(getattr(member, "__annotations__", {}).get("return")).startswith(
                "Deferred"
            )
        ]
        self.assertGreater(len(answering), 20)
        self.assertEqual([one for one in answering if f"`{one}`" not in told], [])


def _default(cell: str) -> object:
    if cell == "required":
        return attrs.NOTHING
    return eval(cell, {**vars(public), "MIB": MIB, "Path": Path})


def _made(default: object) -> object:
    factory = getattr(default, "factory", None)
    return default if factory is None else factory()


def _tree(kind: type[ClientError], depth: int) -> list[tuple[str, str, str]]:
    told = (
        f"{'· ' * depth}`{kind.__name__}`",
        "yes" if kind.retriable else "",
        "yes" if kind.outcome_unknown else "",
    )
    found = [told]
    for below in kind.__subclasses__():
        if below.__module__.startswith("metatwist.client."):
            found.extend(_tree(below, depth + 1))
    return found
