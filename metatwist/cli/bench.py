"""`metatwist bench`: how fast a broker takes and gives messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from metatwist.cli.client_options import (
    EXIT_CODES,
    client_options,
    finish,
    needs_stdout,
)

if TYPE_CHECKING:
    from metatwist.tools.running import Scene
    from metatwist.tools.target import Target

_COUNT = click.IntRange(min=1)
_ABOVE_0 = click.FloatRange(min=0, min_open=True)


@click.group()
def bench() -> None:
    """Measure producing and consuming."""


@bench.command("produce", epilog=EXIT_CODES)
@click.argument("topic")
@click.option(
    "--messages", type=_COUNT, help="So many.  [100000; with --seconds: no limit]"
)
@click.option(
    "--size",
    "size_bytes",
    type=click.IntRange(min=0, max=4 << 20),
    default=1024,
    show_default=True,
    metavar="BYTES",
    help="Of each message.",
)
@click.option("--seconds", type=_ABOVE_0, help="End after so long.")
@click.option("--rate", "per_s", type=_ABOVE_0, help="At most so many a second.")
@click.option(
    "--batch", type=_COUNT, default=1, show_default=True, help="Send so many at once."
)
@click.option(
    "--in-flight",
    type=_COUNT,
    default=10_000,
    show_default=True,
    help="At most so many without an answer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@client_options
def bench_produce(
    target: Target,
    topic: str,
    messages: int | None,
    seconds: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Send messages to TOPIC and print messages/s, MiB/s and latencies.

    A latency is the time from the call to the answer of the broker; at full speed
    most of it is waiting for the messages before.
    """
    from metatwist.tools import measuring
    from metatwist.tools.running import run_tool

    if messages is None and seconds is None:
        messages = 100_000
    job = measuring.SendJob(topic, measuring.Limits(messages, seconds), **options)

    async def measure(scene: Scene) -> int:
        code, figures = await measuring.measure_producing(scene, job)
        click.echo(figures.as_json() if as_json else figures.as_text())
        return code

    needs_stdout()
    finish(run_tool(target, measure))


@bench.command("consume", epilog=EXIT_CODES)
@click.argument("topic")
@click.option("--messages", type=_COUNT, help="End after so many.")
@click.option("--seconds", type=_ABOVE_0, help="End after so long.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@client_options
def bench_consume(
    target: Target,
    topic: str,
    messages: int | None,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Read TOPIC from its begin to its present end and print messages/s and MiB/s.

    It is in no group and stores no offsets.
    """
    from metatwist.tools import measuring
    from metatwist.tools.running import run_tool

    limits = measuring.Limits(messages, seconds)

    async def measure(scene: Scene) -> int:
        code, figures = await measuring.measure_consuming(scene, topic, limits)
        click.echo(figures.as_json() if as_json else figures.as_text())
        return code

    needs_stdout()
    finish(run_tool(target, measure))
