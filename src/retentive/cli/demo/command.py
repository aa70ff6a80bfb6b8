"""`retentive demo`: a long task in two sessions, in two processes, with one memory.

The parent process serves the scripted Claude, shows the events, and kills the first session during its work. Each
session is an agent in a process of its own that talks over HTTP, so only the memory can pass from one to the other.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.util import find_spec
from itertools import count

import click
from click.core import ParameterSource

from retentive.cli import output
from retentive.cli.demo.run import KEYS, memory_of, run_demo
from retentive.cli.demo.show import Screen
from retentive.cli.location import shown
from retentive.values.extras import pip_install

MODEL = "claude-sonnet-5-5"
REQUIRED = ("anthropic", "starlette", "uvicorn")  # the agent, and the server of the scripted Claude


@click.command(cls=output.Command)
@click.option("--live", is_flag=True, help="Use the real API instead of the script; needs ANTHROPIC_API_KEY.")
@click.option(
    "--at", "url", metavar="LOCATION", help="Location of the memory.  [default: a new directory, ./memory-demo]"
)
@click.option("--model", default=MODEL, help="Model to use with --live.")
@click.pass_context
def demo(context: click.Context, *, live: bool, url: str | None, model: str) -> None:
    """Watch an agent learn in one session and remember in the next."""
    url = url or _url_of_group(context)
    _check_requirements(live=live)
    if url is None:
        url = _new_directory()
    elif not live:
        _check_empty(url)
    context.exit(run_demo(Screen(), url, model, live=live))


def _check_requirements(*, live: bool) -> None:
    missing = [module for module in (REQUIRED[:1] if live else REQUIRED) if find_spec(module) is None]
    if missing:
        raise click.ClickException(f"the demo needs {', '.join(missing)}: {pip_install('anthropic', 'testing')}")
    if live and not any(os.environ.get(key) for key in KEYS):
        raise click.UsageError("--live uses the real API: set ANTHROPIC_API_KEY, or omit --live to use the script")


def _check_empty(url: str) -> None:
    with memory_of(url).created() as store:
        if store.usage().memories:
            given = f"{shown(url)} already has memories"
            raise click.UsageError(f"{given}; the script needs an empty memory store: omit --at")


def _new_directory() -> str:
    """A new directory: ./memory-demo, ./memory-demo-2, ..."""
    for number in count(1):
        path = "./memory-demo" if number == 1 else f"./memory-demo-{number}"
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
            break
    return path


def _url_of_group(context: click.Context) -> str | None:
    """The location in `retentive --at LOCATION demo`; RETENTIVE_AT is ignored, since it names real memories."""
    group = context.parent
    if group is None or group.get_parameter_source("url") is not ParameterSource.COMMANDLINE:
        return None
    return str(group.params["url"])
