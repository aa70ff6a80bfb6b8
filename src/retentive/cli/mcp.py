"""`mcp`: serve the memory store to clients of the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import click

from retentive.cli import output
from retentive.cli.location import Location
from retentive.errors import InvalidInput
from retentive.values.extras import pip_install


@output.command("mcp")
@click.option("--one-tool", is_flag=True, help="Offer one tool `memory` with all commands, instead of a tool for each.")
def serve(location: Location, *, one_tool: bool) -> None:
    """Serve the memory store to an MCP client, on standard input and output.

    A client such as Claude Code or Claude Desktop starts this command. If the location is the URL of a server, the
    calls are forwarded to that server. Changes are recorded with the actor given by --actor, and the tool `memory_undo`
    undoes only changes by this actor.

    Creates the location and the memory store if they do not exist.
    """
    try:
        from retentive.mcp import stdio  # noqa: PLC0415 - takes a second
    except ModuleNotFoundError:
        raise InvalidInput(f"`retentive mcp` needs the extra `mcp` of retentive: {pip_install('mcp')}") from None
    with location.created(sweep=True) as store:
        stdio.serve(store, one_tool=one_tool)
