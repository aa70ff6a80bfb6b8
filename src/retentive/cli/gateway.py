"""`gateway`: give the apps of this machine the memory tool."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from retentive.cli import output
from retentive.cli.location import Location
from retentive.cli.options import command
from retentive.cli.parameters import option
from retentive.gateway.endpoint import Gateway, url_of
from retentive.server.options import check_upstream
from retentive.server.serve import serve_here
from retentive.storage.disk import need_posix
from retentive.values.paths import visible
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from retentive.server.application import Server


@command("gateway")
@click.option("--port", type=click.IntRange(0, 65_535), default=8787, help="Port to listen on; 0 is any free one.")
@option("--upstream", "URL", "URL of the Messages API.", default="https://api.anthropic.com")
def gateway(location: Location, *, port: int, upstream: str) -> None:
    """Give the apps of this machine Claude's memory tool, until Ctrl-C: they only change the URL of the API.

    The gateway adds the memory tool to their requests, answers its calls from the memory store, and forwards all else
    as it is, with the app's own API key. It prints the lines to paste, then a line for each memory call.

    Creates the location and the memory store if they do not exist.
    """
    need_posix("`retentive gateway`", "it can run on another machine that has this location")
    check_upstream(upstream)
    with location.opened(create=True, sweep=True) as opened:
        store = opened.store(location.store_key).acting_as(location.actor_name)

        def on_start(address: str) -> None:
            output.write_line(f"export ANTHROPIC_BASE_URL={url_of(address, store)}")
            output.write_line("claude  # or any other program that uses the Messages API")

        def on_call(call: object, reply: Reply) -> None:
            fields = call if isinstance(call, dict) else {}
            names = [fields.get(name) for name in ("command", "path", "old_path", "new_path")]
            shown = " ".join(visible(str(name)[:300]) for name in names if name is not None)
            output.write_line(f"{datetime.now():%H:%M:%S} {shown}{' (error)' if reply.is_error else ''}")

        def made(server: Server) -> list[BaseRoute]:
            return Gateway(server, upstream, local=store, on_call=on_call).routes

        serve_here(opened, made, on_start, port=port)
