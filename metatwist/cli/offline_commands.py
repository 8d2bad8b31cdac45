"""`metatwist admin offline`: work on a data directory that no broker holds."""

from __future__ import annotations

from collections.abc import Sequence

import click

from metatwist.cli.offline import (
    PartitionFolder,
    PartitionRange,
    delete_partitions,
    move_partitions,
)
from metatwist.cli.render import cell
from metatwist.cli.target import AdminTarget, partition_range, target_options


@click.group()
@target_options
def offline(target: AdminTarget) -> None:
    """Change a data directory while its broker is down.

    Consumer offsets are not touched. A Java broker takes no lock, so only you know
    whether one runs.
    """


@offline.command("move-partitions", context_settings={"ignore_unknown_options": True})
@partition_range
@click.argument("offset", type=int)
@target_options
def move(target: AdminTarget, topic: str, first: int, last: int, offset: int) -> None:
    """Rename the folders TOPIC-FIRST to TOPIC-LAST; each number grows by OFFSET."""
    moves = move_partitions(target.data, PartitionRange(topic, first, last), offset)
    target.show([{"from": source, "to": new} for source, new in moves])


@offline.command("delete-partitions")
@partition_range
@click.option("--force", is_flag=True, help="Do not ask.")
@target_options
def delete(target: AdminTarget, topic: str, first: int, last: int, force: bool) -> None:
    """Delete the folders TOPIC-FIRST to TOPIC-LAST and their messages, for good."""

    def confirm(folders: Sequence[PartitionFolder]) -> bool:
        if not force:
            for folder in folders:
                size = cell("size_bytes", folder.size_bytes)
                click.echo(f"{folder.name}: {folder.files} files, {size}", err=True)
            click.confirm(f"Delete from {target.data}?", abort=True, err=True)
        return True

    deleted = delete_partitions(
        target.data, PartitionRange(topic, first, last), confirm
    )
    target.show([{"deleted": name} for name in deleted])
