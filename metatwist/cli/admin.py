"""`metatwist admin`: the verbs of a running broker, over its control socket.

Each verb is one of spec configuration-and-operations 10 to 13, under the name that
the original's scripts gave it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click

from metatwist.cli.control_client import BrokerGone
from metatwist.cli.directory_lock import is_in_use
from metatwist.cli.group_views import group_view, groups_view
from metatwist.cli.offline_commands import offline
from metatwist.cli.target import (
    AdminTarget,
    check_order,
    partition_range,
    target_options,
)
from metatwist.cli.time_argument import time_argument
from metatwist.cli.views import closed_view, recovery_view, status_view
from metatwist.errors import AdminError

STOP_POLL_S = 0.1

# An OFFSET of -2 would otherwise be taken for an option of that name.
NEGATIVE_NUMBERS = {"ignore_unknown_options": True}


@click.group()
@target_options
def admin(target: AdminTarget) -> None:
    """Administer the broker that runs on a data directory.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no broker reached.
    """


admin.add_command(offline)


@admin.command("close-partitions")
@partition_range
@target_options
def close_partitions(target: AdminTarget, topic: str, first: int, last: int) -> None:
    """Refuse puts and gets on partitions FIRST to LAST of TOPIC, until opened.

    They are open again after a restart.
    """
    result = target.call("close-partitions", topic=topic, first=first, last=last)
    target.show(result, closed_view)


@admin.command("open-partitions")
@click.argument("topic")
@click.argument("first", type=click.IntRange(min=0), required=False)
@click.argument("last", type=click.IntRange(min=0), required=False)
@target_options
def open_partitions(
    target: AdminTarget, topic: str, first: int | None, last: int | None
) -> None:
    """Open the closed partitions of TOPIC: FIRST to LAST, or all of them."""
    if first is not None and last is None:
        raise click.UsageError("give FIRST and LAST, or neither")
    if first is not None and last is not None:
        check_order(first, last)
    result = target.call("open-partitions", topic=topic, first=first, last=last)
    target.show(result, closed_view)


@admin.command("delete-partitions")
@partition_range
@click.option("--force", is_flag=True, help="Do not ask.")
@target_options
def delete_partitions(
    target: AdminTarget, topic: str, first: int, last: int, force: bool
) -> None:
    """Delete partitions FIRST to LAST of TOPIC and their messages, for good."""
    if not force:
        click.confirm(
            f"Delete partitions {first} to {last} of {topic} with all their messages?",
            abort=True,
            err=True,
        )
    target.ask("delete-partitions", topic=topic, first=first, last=last, force=True)


@admin.command("move-partitions", context_settings=NEGATIVE_NUMBERS)
@partition_range
@click.argument("offset", type=int)
@target_options
def move_partitions(
    target: AdminTarget, topic: str, first: int, last: int, offset: int
) -> None:
    """Renumber partitions FIRST to LAST of TOPIC: each number grows by OFFSET.

    The offsets that consumers have committed stay with the old numbers.
    """
    target.ask("move-partitions", topic=topic, first=first, last=last, offset=offset)


@admin.command("reload")
@target_options
def reload(target: AdminTarget) -> None:
    """Read the configuration again and apply what may change while it runs."""
    target.ask("reload")


@admin.command("flush")
@click.argument("topic", required=False)
@target_options
def flush(target: AdminTarget, topic: str | None) -> None:
    """Bring what was written to TOPIC, or to all topics, safely to the disk.

    Exits with 1 when that failed for a partition.
    """
    _show_with_failures(target, target.call("flush", topic=topic))


@admin.command("stats")
@click.argument("item", required=False)
@target_options
def stats(target: AdminTarget, item: str | None) -> None:
    """Print the statistics that the wire command `stats` answers.

    ITEM is help, topics, offsets, realtime, or a topic.
    """
    target.ask("stats", item=item)


@admin.command("status")
@target_options
def status(target: AdminTarget) -> None:
    """Print what the broker is, holds and lacks: marks, failures, unsynced bytes."""
    target.show(target.call("status"), status_view)


@admin.command("metrics")
@target_options
def metrics(target: AdminTarget) -> None:
    """Show counters and histograms in Prometheus' text format."""
    target.ask("metrics")


@admin.command("groups")
@click.argument("group", required=False)
@target_options
def groups(target: AdminTarget, group: str | None) -> None:
    """Print the consumer groups with their lag, or all about one GROUP.

    Lag is in bytes. `?` is what nobody here can know, another broker's partitions say.
    """
    view = groups_view if group is None else group_view
    target.show(target.call("groups", group=group), view)


@admin.command("recovery")
@target_options
def recovery(target: AdminTarget) -> None:
    """Print what the last start found and repaired in the data directory."""
    target.show(target.call("recovery"), recovery_view)


@admin.command("offset-at")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("time_ms", metavar="TIME", callback=time_argument)
@target_options
def offset_at(target: AdminTarget, topic: str, partition: int, time_ms: int) -> None:
    """Print the offset of the first message at or after TIME.

    TIME is 2026-01-31T10:00, 2026-01-31, 10:00 (today), or milliseconds since 1970;
    local time unless it says otherwise.
    """
    target.ask("offset-at", topic=topic, partition=partition, time_ms=time_ms)


@admin.command("retain")
@click.argument("topic", required=False)
@target_options
def retain(target: AdminTarget, topic: str | None) -> None:
    """Delete or archive now what the policy of TOPIC, or of all topics, allows.

    Exits with 1 when that failed for a partition.
    """
    _show_with_failures(target, target.call("retain", topic=topic))


@admin.command("stop")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Return when the broker has let go of its data directory; 0 does not wait.",
)
@target_options
def stop(target: AdminTarget, wait_s: float) -> None:
    """Stop the broker in good order: no new requests, finish, flush, leave."""
    try:
        result = target.call("stop")
    except BrokerGone:
        if not wait_s:
            raise
        result = None
    if wait_s and not _released(target.data, wait_s):
        raise AdminError(
            f"the broker has been told to stop, but after {wait_s:g} s it still holds "
            f"{target.data}",
        )
    target.show(result)


def _show_with_failures(target: AdminTarget, result: object) -> None:
    target.show(result)
    if isinstance(result, Mapping) and result.get("failed"):
        click.get_current_context().exit(1)


def _released(directory: Path, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while is_in_use(directory):
        if time.monotonic() > deadline:
            return False
        time.sleep(STOP_POLL_S)
    return True
