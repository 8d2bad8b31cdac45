"""The `metatwist` command."""

from __future__ import annotations

import sys

INTERRUPTED = 130

try:  # most of the time of a start is spent here
    from typing import Any

    import click

    from metatwist import __version__
    from metatwist.cli.admin import admin
    from metatwist.cli.bench import bench
    from metatwist.cli.browse import browse
    from metatwist.cli.consume import consume
    from metatwist.cli.produce import produce
    from metatwist.cli.standard_streams import fill_closed
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)


class Commands(click.Group):
    """Ends quietly at a SIGINT that comes before a command deals with it."""

    def invoke(self, ctx: click.Context) -> Any:
        """See click.Group."""
        try:
            fill_closed()
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="metatwist")
def main() -> None:
    """Tools around the metatwist broker; start the broker with `twistd metaq`."""


for _command in (admin, produce, consume, browse, bench):
    main.add_command(_command)
