"""What every admin command shares: which broker, which output, which exit code.

Exit codes: 0 done, 1 refused, 2 wrong usage (click's own), 3 no broker reached.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from attrs import evolve, frozen

from metatwist.cli.control_client import BrokerUnreachable, ControlClient
from metatwist.cli.render import printable, show
from metatwist.errors import AdminError, StorageError

Command = Callable[..., Any]
View = Callable[[object], object]

ANSWER_TIMEOUT_S = 30.0
# These take as long as the disk, or what is under way, needs.
_UNBOUNDED_VERBS = frozenset(
    ("flush", "retain", "move-partitions", "delete-partitions", "stop")
)


@frozen
class AdminTarget:
    """The data directory to work on, and how to print what comes of it."""

    data: Path
    as_json: bool = False
    timeout_s: float | None = None

    @classmethod
    def from_environment(cls) -> AdminTarget:
        """METATWIST_DATA, or else `data` in the working directory."""
        return cls(Path(os.environ.get("METATWIST_DATA") or "data"))

    def overridden(
        self, data: Path | None, as_json: bool, timeout_s: float | None
    ) -> AdminTarget:
        """Apply the options of an inner command over those of its group."""
        return evolve(
            self,
            data=self.data if data is None else data,
            as_json=self.as_json or as_json,
            timeout_s=self.timeout_s if timeout_s is None else timeout_s,
        )

    def call(self, verb: str, **arguments: object) -> object:
        """Run `verb` in the broker; raises as `ControlClient.call`.

        Without a timeout of its own a verb that works on memory alone gets 30 s.
        """
        timeout_s = self.timeout_s
        if timeout_s is None and verb not in _UNBOUNDED_VERBS:
            timeout_s = ANSWER_TIMEOUT_S
        client = ControlClient(self.data, answer_timeout_s=timeout_s)
        return client.call(verb, **arguments)

    def ask(self, verb: str, **arguments: object) -> None:
        """Run `verb` in the broker and print its result."""
        self.show(self.call(verb, **arguments))

    def show(self, result: object, view: View | None = None) -> None:
        """Print a JSON value as asked; `view` prepares it for people."""
        if view is not None and not self.as_json:
            result = view(result)
        show(result, as_json=self.as_json)


class Refused(click.ClickException):
    """Ends the command: the broker, or the state of the directory, forbids it."""

    exit_code = 1


class Unreached(click.ClickException):
    """Ends the command: no broker answered."""

    exit_code = 3


def target_options(command: Command) -> Command:
    """Give a command --data, --json, --timeout; it gets the merged `AdminTarget`.

    The options may stand at the group and at the verb; the inner ones win. Refusals
    and unreachable brokers become exit codes here and nowhere else.
    """

    @click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="Data directory of the broker.  [METATWIST_DATA, or else ./data]",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    @click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help=f"Give up on an answer after this time.  [{ANSWER_TIMEOUT_S:g}; "
        f"{', '.join(sorted(_UNBOUNDED_VERBS))}: wait]",
    )
    @functools.wraps(command)
    def with_target(
        data: Path | None,
        as_json: bool,
        timeout_s: float | None,
        **arguments: Any,
    ) -> Any:
        context = click.get_current_context()
        outer = context.find_object(AdminTarget) or AdminTarget.from_environment()
        context.obj = outer.overridden(data, as_json, timeout_s)
        try:
            return command(context.obj, **arguments)
        except BrokerUnreachable as error:
            raise Unreached(printable(str(error))) from error
        except (AdminError, StorageError) as error:
            raise Refused(printable(str(error))) from error

    return with_target


def partition_range(command: Command) -> Command:
    """Give a command the arguments TOPIC FIRST LAST, with FIRST <= LAST."""

    @click.argument("topic")
    @click.argument("first", type=click.IntRange(min=0))
    @click.argument("last", type=click.IntRange(min=0))
    @functools.wraps(command)
    def with_range(*positional: Any, first: int, last: int, **arguments: Any) -> Any:
        check_order(first, last)
        return command(*positional, first=first, last=last, **arguments)

    return with_range


def check_order(first: int, last: int) -> None:
    """Raise a usage error unless `first` <= `last`."""
    if first > last:
        raise click.UsageError(f"FIRST ({first}) is above LAST ({last})")
