"""`completion`: print the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from retentive.cli import output
from retentive.cli.location import Location

PROGRAM, VARIABLE = "retentive", "_RETENTIVE_COMPLETE"


@output.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(_location: Location, shell: str) -> None:
    """Print a script for SHELL that completes commands, options, paths, memory stores and versions.

    Run the example for your shell once. For zsh, the file must be in a directory of $fpath. Paths, stores and versions
    are completed from the location on the command line, or from RETENTIVE_AT. Completion creates and changes nothing.
    """
    found = get_completion_class(shell)
    assert found is not None
    output.write_text(found(click.Command(PROGRAM), {}, PROGRAM, VARIABLE).source())
