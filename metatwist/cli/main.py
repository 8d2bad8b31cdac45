"""The `metatwist` command."""

from __future__ import annotations

import click

from metatwist import __version__
from metatwist.cli.admin import admin
from metatwist.cli.bench import bench
from metatwist.cli.browse import browse
from metatwist.cli.consume import consume
from metatwist.cli.produce import produce


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="metatwist")
def main() -> None:
    """Tools around the metatwist broker; start the broker with `twistd metaq`."""


for _command in (admin, produce, consume, browse, bench):
    main.add_command(_command)
