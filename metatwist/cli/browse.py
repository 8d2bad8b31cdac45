"""`metatwist browse`: what is stored in a topic, once."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from metatwist.cli.client_options import (
    EXIT_CODES,
    client_options,
    finish,
    needs_stdout,
    output_options,
)

if TYPE_CHECKING:
    from metatwist.tools.output import OutputForm
    from metatwist.tools.target import Target

_OFFSET = click.IntRange(min=0, max=2**63 - 1)


@click.command(epilog=EXIT_CODES)
@click.argument("topic")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="[BROKER-]N",
    help="0-3, or 3 for that one of each broker; repeatable.  [all]",
)
@click.option("--from-offset", type=_OFFSET, help="Where a message begins, in bytes.")
@click.option("--to-offset", type=_OFFSET, help="No message from there on.")
@click.option(
    "--last",
    type=click.IntRange(min=1, max=1_000_000),
    metavar="N",
    help="Of each partition the last N messages that would be shown; a first pass over "
    "all looks where they begin. At most 1000000.",
)
@click.option("--grep", metavar="REGEX", help="Only bodies in which this is found.")
@click.option("--contains", metavar="TEXT", help="Only bodies that contain this.")
@output_options
@client_options
def browse(
    target: Target,
    topic: str,
    form: OutputForm,
    grep: str | None,
    contains: str | None,
    **options: Any,
) -> None:
    """Print all messages of TOPIC once, up to its present end, and nothing else.

    It is in no group and changes nothing.
    """
    from metatwist.tools import browsing
    from metatwist.tools.running import run_tool

    job = browsing.BrowseJob(topic, pattern=_pattern(grep, contains), **options)
    if form.path is None:
        needs_stdout()
    finish(run_tool(target, partial(browsing.browse, job=job, form=form)))


def _pattern(grep: str | None, contains: str | None) -> re.Pattern[bytes] | None:
    if grep is not None and contains is not None:
        raise click.UsageError("give --grep or --contains, not both")
    if contains is not None:
        return re.compile(re.escape(contains.encode()))
    if grep is None:
        return None
    try:
        return re.compile(grep.encode())
    except re.error as error:
        raise click.UsageError(f"--grep is no regular expression: {error}") from None
