"""The `retentive` command: options, subcommands, which are imported on use, and exit statuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

import click

from retentive import __version__
from retentive.cli.exits import INTERRUPTED
from retentive.cli.location import Location
from retentive.cli.parameters import user_by_default
from retentive.opening import DEFAULT_KEY, DEFAULT_LOCATION

COMMANDS: Mapping[str, str] = {
    name: module
    for module, names in (
        ("memories", "ls view cat create"),
        ("editor", "edit"),
        ("memories", "replace insert rm mv"),
        ("stores", "stores"),
        ("search", "search"),
        ("history", "log show diff blame"),
        ("undoing", "restore undo"),
        ("removal", "redact erase"),
        ("settings", "settings"),
        ("review", "review"),
        ("trust", "trust"),
        ("maintenance", "scan sweep"),
        ("transfer", "export import backup restore-backup migrate"),
        ("audit", "audit"),
        ("status", "status"),
        ("stats", "stats"),
        ("maintenance", "doctor"),
        ("keys", "keys"),
        ("maintenance", "migrate-schema collect"),
        ("tool_calls", "exec"),
        ("stores", "init"),
        ("chat.command", "chat"),
        ("demo.command", "demo"),
    )
    for name in names.split()
}
"""Module of each subcommand, in the order of the help."""


class LazyGroup(click.Group):
    """A group that imports a subcommand on use, so that `retentive view` imports nothing for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the subcommands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand with this name; None if there is no such subcommand."""
        if cmd_name not in COMMANDS:
            return None
        found = vars(import_module(f"retentive.cli.{COMMANDS[cmd_name]}")).values()
        return next(each for each in found if isinstance(each, click.Command) and each.name == cmd_name)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--at",
    "url",
    metavar="LOCATION",
    default=DEFAULT_LOCATION,
    envvar="RETENTIVE_AT",
    show_envvar=True,
    help="Location of the memory: a directory, sqlite:///FILE (four slashes before an absolute path), postgresql://,"
    " mariadb://, s3://, gs:// or az://.",
)
@click.option(
    "--store",
    metavar="KEY",
    default=DEFAULT_KEY,
    envvar="RETENTIVE_STORE",
    show_envvar=True,
    help="Key or id of the memory store.",
)
@click.option(
    "--actor",
    metavar="ACTOR",
    callback=user_by_default,
    help="Actor recorded with changes: a user's name, or KIND:NAME such as session:s1.  [default: your login name]",
)
@click.option(
    "--keys",
    metavar="FILE",
    help="Key file; new memory stores are encrypted.  [env var: RETENTIVE_KEYS_FILE, or RETENTIVE_KEYS, its contents]",
)
@click.option("--seal-paths", is_flag=True, help="Encrypt the paths in new memory stores too. Needs keys.")
@click.version_option(__version__, prog_name="retentive", message="%(prog)s %(version)s")
@click.pass_context
def app(ctx: click.Context, *, url: str, store: str, actor: str | None, keys: str | None, seal_paths: bool) -> None:
    """Durable, versioned, shared memory for Claude's memory tool.

    Reads and changes memories with the paths (/memories/...), commands and replies of the tool.
    """
    ctx.obj = Location(url=url, store_key=store, actor=actor, keys=keys, seal_paths=seal_paths)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. The default arguments are those of this process."""
    try:
        status = app.main(arguments, prog_name="retentive", standalone_mode=False)
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return status if isinstance(status, int) else 0
