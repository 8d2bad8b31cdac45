"""`metatwist produce`: lines, files or JSON into a topic."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from metatwist.cli.client_options import (
    EXIT_CODES,
    checked,
    client_options,
    finish,
    needs_stdout,
)

if TYPE_CHECKING:
    from metatwist.tools.producing import ProduceJob
    from metatwist.tools.target import Target


@click.command(epilog=EXIT_CODES)
@click.argument("topic")
@click.argument(
    "files",
    nargs=-1,
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True),
)
@click.option("--null", is_flag=True, help="Messages end with a zero byte.")
@click.option(
    "--delimiter",
    metavar="TEXT",
    help="What messages end with; \\n \\r \\t \\0 \\xNN are understood.  [\\n]",
)
@click.option("--whole-file", is_flag=True, help="Each file is one message.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Objects, as consume --format json prints them: "body" or "body_base64", '
    '"attribute", "key".',
)
@click.option("--attribute", metavar="TEXT", help="Of messages that have none.")
@click.option("--key-delimiter", metavar="TEXT", help="The key stands before it.")
@click.option("--encoding", help="Of the input, which is sent as UTF-8.  [as it is]")
@click.option("--partition", metavar="BROKER-N", help="Send to this one, as in 0-3.")
@click.option(
    "--selector",
    type=click.Choice(["key", "round-robin", "random"]),
    default="key",
    show_default=True,
    help="Of partitions; without a key, key is round-robin.",
)
@click.option(
    "--rate",
    "per_s",
    type=click.FloatRange(min=0, min_open=True),
    help="At most so many messages a second.",
)
@click.option(
    "--print",
    "show",
    type=click.Choice(["text", "json"]),
    help="Print partition, offset and id of each stored message.",
)
@click.option("--retries", type=click.IntRange(min=0), default=5, show_default=True)
@click.option(
    "--may-duplicate",
    is_flag=True,
    help="Send again also what may be stored already.",
)
@client_options
def produce(target: Target, topic: str, files: tuple[str, ...], **options: Any) -> None:
    """Send each line of FILES, or of stdin, to TOPIC.

    What was not stored is told on stderr, with the numbers of the lines.
    """
    from metatwist.tools import producing
    from metatwist.tools.running import run_tool

    job = checked(lambda: _job(topic, files or ("-",), options))
    if job.show is not None:
        needs_stdout()
    if "-" in job.sources and sys.stdin is None:
        raise click.ClickException("stdin is closed")
    finish(run_tool(target, partial(producing.produce, job=job)))


def _job(topic: str, sources: tuple[str, ...], options: dict[str, Any]) -> ProduceJob:
    """Raises ValueError, and UsageError for options that exclude each other."""
    from metatwist.coordination.names import PartitionName
    from metatwist.tools.formats import check_encoding, delimiter_of
    from metatwist.tools.producing import ProduceJob

    delimiter = _delimiter(options)
    key_delimiter = options.pop("key_delimiter")
    if key_delimiter is not None and options["as_json"]:
        raise click.UsageError("JSON has its keys in it, without --key-delimiter")
    if options["encoding"] is not None:
        check_encoding(options["encoding"])
    partition = None
    text = options.pop("partition")
    if text is not None:
        partition = PartitionName.parse(text)
        if partition is None:
            raise ValueError(f"{text!r} is no partition; one is 0-3, of broker 0")
    return ProduceJob(
        topic,
        sources,
        delimiter=delimiter,
        key_delimiter=None if key_delimiter is None else delimiter_of(key_delimiter),
        partition=partition,
        **options,
    )


def _delimiter(options: dict[str, Any]) -> bytes | None:
    from metatwist.tools.formats import delimiter_of

    null, text = options.pop("null"), options.pop("delimiter")
    whole = options.pop("whole_file")
    if [null, text is not None, whole].count(True) > 1:
        raise click.UsageError("give one of --null, --delimiter and --whole-file")
    if whole:
        return None
    if null:
        return b"\0"
    return b"\n" if text is None else delimiter_of(text)
