"""`console`: open the web console of a location on this machine."""

from __future__ import annotations

import webbrowser

import click

from retentive.cli import output
from retentive.cli.location import Location, shown
from retentive.errors import InvalidInput
from retentive.storage.disk import need_posix
from retentive.values.extras import pip_install


@output.command("console")
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
def console(location: Location, *, no_browser: bool) -> None:
    """Serve the web console of a location until Ctrl-C, and open it in the browser.

    Only this machine can connect. The login page asks for the code that this command prints. The code can be used once,
    within 60 seconds. Changes are recorded with your user as actor. docs/console.md describes the pages.
    """
    need_posix("`retentive console`", "it can run on another machine that has this location")
    try:
        from retentive.console.sessions import OneTimeCode  # noqa: PLC0415 - imports the server
        from retentive.console.web import console as made  # noqa: PLC0415 - needs an extra
        from retentive.server.serve import serve_here  # noqa: PLC0415 - imports uvicorn
    except ImportError:
        packages = pip_install("server", "console")
        raise InvalidInput(f"`retentive console` needs the extra `console` of retentive: {packages}") from None
    with location.opened() as opened:
        code = OneTimeCode(location.actor_name)

        def on_start(address: str) -> None:
            output.write_line(f"Console of {shown(location.url)} at {address}/console/")
            output.write_line(f"Code for the login page, valid once for 60 seconds: {code.text[:4]}-{code.text[4:]}")
            if not no_browser:
                webbrowser.open(f"{address}/console/")

        serve_here(opened, lambda server: made(server, code=code).routes(), on_start)
