"""What `produce`, `consume`, `browse` and `bench` share: brokers, output, the end.

Nothing of Twisted is loaded before one of them runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from metatwist.tools.ending import Ending

Command = Callable[..., Any]
_T = TypeVar("_T")

DEFAULT_BROKER = "127.0.0.1:8123"
FORMATS = ("text", "json", "raw", "hex", "base64")
EXIT_CODES = """
Exit codes: 0 done, 1 not all done, 2 wrong usage, 3 no broker reached, 130 and 143
stopped by SIGINT and SIGTERM.
"""


def client_options(command: Command) -> Command:
    """Give a command the options that name its brokers; it gets a `Target` first."""

    @click.option(
        "--zookeeper",
        metavar="CONNECT",
        envvar="METATWIST_ZOOKEEPER",
        help="Find brokers by host:port,.../chroot.  [METATWIST_ZOOKEEPER]",
    )
    @click.option(
        "--root",
        default="/meta",
        show_default=True,
        help="Root of the znodes, with --zookeeper.",
    )
    @click.option(
        "--broker",
        "brokers",
        multiple=True,
        metavar="ADDRESS",
        envvar="METATWIST_BROKER",
        help="Address of a broker: host:port, meta://host:port or an endpoint string "
        f"such as tls:host:port; repeatable.  [METATWIST_BROKER, or {DEFAULT_BROKER}]",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="For connecting, and for each answer.",
    )
    @click.option(
        "--progress/--no-progress",
        default=True,
        help="A progress bar on stderr, if that is a terminal.  [shown]",
    )
    @click.option("-q", "--quiet", is_flag=True, help="No notes on stderr, no bar.")
    @click.option("-v", "--verbose", is_flag=True, help="Log to stderr what happens.")
    @functools.wraps(command)
    def with_target(
        zookeeper: str | None, brokers: tuple[str, ...], **arguments: Any
    ) -> Any:
        from metatwist.tools.running import check
        from metatwist.tools.target import Target

        zookeeper, brokers = _one_of(zookeeper, brokers)
        names = ("root", "timeout_s", "progress", "quiet", "verbose")
        patience = {name: arguments.pop(name) for name in names}
        target = Target(zookeeper, brokers=brokers, **patience)
        checked(lambda: check(target))
        return command(target, **arguments)

    return with_target


def _one_of(
    zookeeper: str | None, brokers: tuple[str, ...]
) -> tuple[str | None, tuple[str, ...]]:
    """What was said on the command line wins over the environment."""
    context = click.get_current_context()
    if zookeeper and brokers:
        said = {
            name: context.get_parameter_source(name) is ParameterSource.COMMANDLINE
            for name in ("zookeeper", "brokers")
        }
        if said["zookeeper"] == said["brokers"]:
            raise click.UsageError("give --zookeeper or --broker, not both")
        if said["zookeeper"]:
            brokers = ()
        else:
            zookeeper = None
    if zookeeper:
        return zookeeper, ()
    return None, brokers or (DEFAULT_BROKER,)


def output_options(command: Command) -> Command:
    """Give a command --format, --delimiter and --output; it gets an `OutputForm` as
    `form`."""

    @click.option(
        "--format",
        "name",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="json is one object a line, raw bodies without a delimiter.",
    )
    @click.option(
        "--delimiter",
        metavar="TEXT",
        help="Behind each message; \\n \\r \\t \\0 \\xNN are understood.  [\\n]",
    )
    @click.option(
        "--output",
        "path",
        type=click.Path(),
        help="Append to this file; into a folder a file for each message.  [stdout]",
    )
    @functools.wraps(command)
    def with_form(
        *positional: Any,
        name: str,
        delimiter: str | None,
        path: str | None,
        **arguments: Any,
    ) -> Any:
        from metatwist.tools.formats import delimiter_of
        from metatwist.tools.output import OutputForm

        behind = None
        if delimiter == "":
            behind = b""
        elif delimiter is not None:
            behind = checked(lambda: delimiter_of(delimiter))
        form = OutputForm(name, behind, path)
        return command(*positional, form=form, **arguments)

    return with_form


def checked(make: Callable[[], _T]) -> _T:
    """What it makes; wrong usage where that raises ValueError."""
    try:
        return make()
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def needs_stdout() -> None:
    """Exit at once where results are to be printed, and stdout is closed."""
    if sys.stdout is None:
        click.echo("Error: stdout is closed", err=True)
        sys.exit(1)


def finish(ending: Ending) -> None:
    """Say what went wrong, and exit."""
    if ending.problem is not None:
        click.echo(f"Error: {ending.problem}", err=True)
    sys.exit(ending.code)
