"""`metatwist consume`: messages of topics on stdout or into files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from metatwist.cli.client_options import (
    EXIT_CODES,
    checked,
    client_options,
    finish,
    needs_stdout,
    output_options,
)

if TYPE_CHECKING:
    from metatwist.tools.consuming import ConsumeJob
    from metatwist.tools.output import OutputForm
    from metatwist.tools.target import Target


@click.command(epilog=EXIT_CODES)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--group",
    help="Share the partitions with the others of this group, and go on where it is.  "
    "[none: all partitions, nothing is stored]",
)
@click.option(
    "--from",
    "begin",
    metavar="WHERE",
    default="earliest",
    show_default=True,
    help="earliest, latest or an offset, for partitions of which the group has none; "
    "stored: such partitions are an error.",
)
@click.option("--count", type=click.IntRange(min=1), help="End after so many messages.")
@click.option(
    "--until-end",
    is_flag=True,
    help="End where the topics end now; of a shared group, when our share is read and "
    "others have theirs. Exit code 1 if nothing is ours within --timeout.",
)
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End when nothing has come for so long.",
)
@click.option("--no-commit", is_flag=True, help="Do not store how far the group came.")
@click.option("--consumer-id", help="Within the group.  [made up]")
@click.option(
    "--offsets",
    "offsets_folder",
    type=click.Path(file_okay=False),
    help="Keep the group's offsets in this folder; needed with --broker.",
)
@output_options
@client_options
def consume(
    target: Target, topics: tuple[str, ...], form: OutputForm, **options: Any
) -> None:
    """Print the messages of TOPICs as they come, until stopped.

    With a group an offset is stored only when all before it was written. A reader
    that leaves, like head, ends it as well, with exit code 0.
    """
    from metatwist.tools import consuming
    from metatwist.tools.running import run_tool

    job = checked(lambda: _job(target, topics, options))
    if form.path is None:
        needs_stdout()
    finish(run_tool(target, partial(consuming.consume, job=job, form=form)))


def _job(
    target: Target, topics: tuple[str, ...], options: dict[str, Any]
) -> ConsumeJob:
    """Raises ValueError, and UsageError for options that do not fit."""
    from metatwist.tools.consuming import ConsumeJob

    begin, group = options.pop("begin"), options["group"]
    no_commit, folder = options.pop("no_commit"), options["offsets_folder"]
    if group is None:
        given = {
            "--no-commit": no_commit,
            "--offsets": folder,
            "--consumer-id": options["consumer_id"],
            "--from stored": begin == "stored",
        }
        for name, value in given.items():
            if value:
                raise click.UsageError(f"{name} needs a --group")
    elif target.zookeeper is None and folder is None:
        raise click.UsageError(
            "a group needs --zookeeper, or --offsets with a folder for its offsets"
        )
    if len(set(topics)) < len(topics):
        raise click.UsageError("a topic is named twice")
    job = ConsumeJob(topics, start=_start(begin), commits=not no_commit, **options)
    job.settings  # noqa: B018  # checks
    return job


def _start(text: str) -> Any:
    from metatwist.client.settings import Start

    named = {
        "earliest": Start.EARLIEST,
        "latest": Start.LATEST,
        "stored": Start.ERROR,
    }
    if text in named:
        return named[text]
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise ValueError(f"{text!r} is none of earliest, latest, stored, and no offset")
    return int(text)
