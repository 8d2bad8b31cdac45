"""The `metatwist` command."""

from __future__ import annotations

import click

from metatwist import __version__
from metatwist.cli.admin import admin


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="metatwist")
def main() -> None:
    """Tools around the metatwist broker; start the broker with `twistd metaq`."""


main.add_command(admin)
