"""The command `retentive`: its commands in one table, of which only the one that runs is imported, and its errors."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click
from click.exceptions import NoSuchCommand

from retentive import __version__
from retentive.cli import output
from retentive.cli.exits import INTERRUPTED, TERMINATED, status_of
from retentive.cli.location import without_keys
from retentive.cli.options import asks_for_json, global_options, lacking
from retentive.values.replies import Reply

Section = Mapping[str, tuple[str, str]]
COMMANDS: Mapping[str, Section] = {
    "Read memories": {
        "ls": ("reading", "List memories with their sizes"),
        "cat": ("reading", "Print the exact text of a memory"),
        "view": ("reading", "Show what a model sees: a numbered text or a listing"),
        "search": ("reading", "Find memories by words or a pattern"),
        "recall": ("reading", "Print the best lines for a question, within a budget"),
        "check": ("checking", "Test that questions find their answers"),
    },
    "Change memories": {
        "create": ("changes", "Create a memory"),
        "write": ("changes", "Create a memory, or replace its whole text"),
        "append": ("changes", "Append lines to a memory"),
        "edit": ("editor", "Edit a memory in your editor"),
        "replace": ("changes", "Replace one passage of a memory"),
        "insert": ("changes", "Insert lines into a memory"),
        "cp": ("changes", "Copy a memory"),
        "mv": ("changes", "Rename a memory or a directory"),
        "rm": ("changes", "Delete memories or directories"),
    },
    "Look back and undo": {
        "log": ("history", "List changes, newest first"),
        "show": ("history", "Show one change or version"),
        "diff": ("history", "Show what changed"),
        "blame": ("history", "Show who last changed each line"),
        "undo": ("undoing", "Undo a change, or all changes of an actor"),
        "restore": ("undoing", "Restore an earlier state"),
    },
    "Decide what stays": {
        "review": ("review", "List, accept and refuse proposed changes"),
        "tidy": ("tidying", "Let Claude merge and correct memories, for your review"),
        "cite": ("citing", "Write into a memory where it comes from"),
        "verify": ("citing", "Check whether cited files and memories have changed"),
        "promote": ("review", "Propose memories to another memory store, with their history"),
        "trust": ("review", "List, confirm and quarantine untrusted memories"),
        "redact": ("undoing", "Remove the texts of old versions permanently"),
        "erase": ("undoing", "Remove memories with their history permanently"),
    },
    "Memory stores": {
        "init": ("stores", "Create a memory store"),
        "stores": ("stores", "List, create, describe and archive memory stores"),
        "settings": ("stores", "Show and change limits and permissions"),
        "import": ("transfer", "Import files as memories"),
        "export": ("transfer", "Export a memory store to files"),
        "sync": ("sync", "Keep a directory of notes in sync with the memory store"),
        "evidence": ("evidence", "Show what a session read, changed and had reviewed"),
        "doctor": ("maintenance", "Check the integrity of the storage, and repair it"),
        "admin": ("app", "Back up, move, verify, encrypt and maintain a location"),
    },
    "Serve and connect": {
        "console": ("server", "Open the web console of a location"),
        "serve": ("server", "Serve the memory stores over HTTP"),
        "gateway": ("gateway", "Give any app the memory tool, by changing one URL"),
        "keys": ("server", "Create, list and revoke API keys of the server"),
        "groups": ("groups", "Give people and agents roles in memory stores"),
        "mcp": ("server", "Serve MCP clients, such as Claude Code, over stdio"),
        "exec": ("executing", "Answer JSON commands, one per line"),
        "hook": ("hook", "Answer a hook of the Claude Code plugin"),
        "demo": ("demo", "Watch an agent learn and remember"),
    },
}
"""Sections of the help. Each maps the name of a command to its module and its short description."""

ADMIN: Mapping[str, Section] = {
    "Commands": {
        "backup": ("transfer", "Back up memory stores to one file"),
        "restore-backup": ("transfer", "Restore a backup"),
        "drill": ("maintenance", "Restore a backup to a temporary location, and check it"),
        "migrate": ("transfer", "Copy memory stores to another location"),
        "migrate-schema": ("maintenance", "Create or update the tables of a database server"),
        "maintain": ("maintenance", "Expire, prune and clean up all memory stores now"),
        "sweep": ("maintenance", "Expire idle memories and old versions of one store"),
        "stats": ("maintenance", "Show sizes, activity, limits and pending work"),
        "scan": ("maintenance", "Find sensitive values"),
        "audit": ("audit", "Verify, export and show the audit log"),
        "encryption": ("encryption", "Create, rotate and destroy encryption keys"),
    }
}
"""Commands below `retentive admin`."""

ALIASES: Mapping[str, str] = {"str_replace": "replace", "delete": "rm", "rename": "mv"}
"""Commands of the memory tool that have another name on the command line, with this name."""

_OTHERS = {
    "mv": "ren move",
    "rm": "remove del",
    "ls": "list dir memories rows",
    "cat": "get read print head tail",
    "create": "add new touch",
    "cp": "copy",
    "write": "put set commit upsert update",
    "search": "grep find query",
    "log": "history status",
    "undo": "revert",
    "tidy": "dream consolidate",
    "restore": "reset checkout",
    "settings": "config",
    "doctor": "fsck",
    "admin maintain": "gc vacuum",
    "serve": "server",
    "groups": "group team people",
    "keys": "key",
    "stores": "tables",
    "import": "insert-files",
    "sync": "push pull fetch remote",
    "admin migrate": "clone",
    "export": "dump",
    "--help": "help",
    "--version": "version",
}
MEANT = {name: command for command, names in _OTHERS.items() for name in names.split()}
MEANT |= {name: f"admin {name}" for name in ADMIN["Commands"]}
"""Names of commands elsewhere, in other programs or below `admin`, with the command of `retentive` to suggest."""


class App(click.Group):
    """Group that imports only the subcommand that runs. For an unknown name, it suggests similar ones."""

    def __init__(self, *args: Any, sections: Mapping[str, Section], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.table = {name: row for section in sections.values() for name, row in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of the help."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand with a name or alias. Returns None if there is no such subcommand."""
        name = ALIASES.get(cmd_name, cmd_name) if self is app else cmd_name
        if name not in self.table:
            return None
        try:
            found = vars(import_module(f"retentive.cli.{self.table[name][0]}")).values()
        except ImportError as error:
            raise lacking(name, error) from None
        return next(each for each in found if isinstance(each, click.Command) and each.name == name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand that `args` names, and the other arguments. Suggests a command for an unknown name."""
        name = args[0]
        if not ctx.resilient_parsing and name[:1] != "-" and self.get_command(ctx, name) is None:
            if meant := MEANT.get(name.lower()):
                raise click.UsageError(f"No such command {name!r}. Did you mean {meant!r}?", ctx)
            raise NoSuchCommand(name, possibilities=[*self.table, *ALIASES], ctx=ctx)
        _, command, rest = super().resolve_command(ctx, args)
        return None if command is None else command.name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all subcommands, grouped in sections."""
        width = max(map(len, self.table))
        for title, rows in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in rows.items()])

    def main(self, args: Sequence[str] | None = None, *_: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command line. In standalone mode, exit the process with its status."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        sys.exit(run(args))


@click.group(
    cls=App,
    sections=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    params=global_options(root=True),
    epilog="Options may follow the command too. `retentive COMMAND --help` describes a command.",
)
@click.version_option(__version__, prog_name="retentive", message="%(prog)s %(version)s")
def app() -> None:
    """Durable, versioned, shared memory for Claude's memory tool.

    \b
    retentive create notes.md "Refunds: within 30 days"
    retentive cat notes.md
    retentive log notes.md
    """


@click.group(cls=App, sections=ADMIN, params=global_options())
def admin() -> None:
    """Back up, move, verify, encrypt and maintain a location.

    \b
    retentive admin backup saved.tar.zst
    retentive admin maintain --at s3://bucket/memory
    """


COMMANDS_BY_NAME = (*app.table, *(f"admin {name}" for name in admin.table))
"""All commands, as they are typed after `retentive`."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. `arguments` defaults to `sys.argv[1:]`."""
    given, ended = list(sys.argv[1:] if arguments is None else arguments), list[int]()

    def terminate(number: int, _: FrameType | None) -> NoReturn:
        """Exit as after a command, so that open locations are closed. A second signal ends the process at once."""
        signal.signal(number, signal.SIG_DFL)
        ended.append(TERMINATED)
        sys.exit(TERMINATED)

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)
    try:
        status = app.main(given, prog_name="retentive", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.exceptions.Abort:
        return ended[0] if ended else INTERRUPTED  # watchfiles turns any signal into that of Ctrl-C
    except click.ClickException as error:
        vars(error)["message"] = without_keys(error.message)  # declared final
        if asks_for_json(given):
            code = "invalid_input" if error.exit_code == status_of("invalid_input") else "error"
            output.write_line(output.to_json(Reply(f"Error: {error.format_message()}", is_error=True, code=code)))
        else:
            error.show()
        return 0 if given[:1] == ["hook"] else error.exit_code  # Claude Code blocks the action if a hook exits with 2
