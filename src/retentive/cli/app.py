"""The command `retentive`. It imports only the subcommand that runs. For an unknown name, it suggests similar ones."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

from retentive import __version__
from retentive.cli import output
from retentive.cli.catalogue import ALIASES, COMMANDS, MEANT, SECTIONS
from retentive.cli.exits import INTERRUPTED, TERMINATED, status_of
from retentive.cli.options import asks_for_json, global_options, own_options
from retentive.values.replies import Reply

_WIDTH = max(map(len, COMMANDS))


class App(click.Group):
    """Group of subcommands. It imports only the subcommand that runs, so that each command starts quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand with a name or alias. Returns None if there is no such subcommand."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        found = vars(import_module(f"retentive.cli.{COMMANDS[name][0]}")).values()
        return next(each for each in found if isinstance(each, click.Command) and each.name == name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the subcommand in `args`, the subcommand itself, and the arguments after its name.

        If the subcommand is unknown, raises `UsageError` with similar names.
        """
        if not ctx.resilient_parsing and args[0] not in ALIASES and args[0] not in COMMANDS and args[0][:1] != "-":
            raise click.UsageError(f"No such command {args[0]!r}.{_suggestion(args[0])}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        name = name and ALIASES.get(name, name)
        return name, command, rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all subcommands, grouped in sections, and then the options."""
        for title, rows in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(_WIDTH), text) for name, (_, text) in rows.items()])
        with formatter.section("Options, before or after the command"):
            formatter.write_dl(own_options(ctx, is_root=True))

    def main(self, args: Sequence[str] | None = None, *_: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command line. In standalone mode, exit the process with its status."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        sys.exit(run(args))


def _suggestion(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only for this error

    meant = MEANT.get(name.lower())
    close = [meant] if meant else get_close_matches(name, [*COMMANDS, *ALIASES], cutoff=0.5)
    return f" Did you mean {' or '.join(close)}?" if close else ""


@click.group(
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    params=global_options(root=True),
    epilog="`retentive COMMAND --help` describes a command and shows examples.",
)
@click.version_option(__version__, prog_name="retentive", message="%(prog)s %(version)s")
def app() -> None:
    """Durable, versioned, shared memory for Claude's memory tool.

    \b
    retentive create notes.md "Refunds: within 30 days"
    retentive cat notes.md
    retentive log notes.md
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. `arguments` defaults to `sys.argv[1:]`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        status = app.main(given, prog_name="retentive", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        status = _report(error, given)
        return 0 if given[:1] == ["hook"] else status  # Claude Code blocks the action if a hook exits with 2


def _terminate(number: int, _: FrameType | None) -> NoReturn:
    """Exit as after a command, so that open locations are closed. A second signal ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    sys.exit(TERMINATED)


def _report(error: click.ClickException, given: Sequence[str]) -> int:
    """Print a usage error and return its exit status. If the arguments ask for JSON, print JSON."""
    vars(error)["message"] = output.without_keys(error.message)  # declared final
    if not asks_for_json(given):
        error.show()
        return error.exit_code
    code = "invalid_input" if error.exit_code == status_of("invalid_input") else "error"
    output.write_line(output.to_json(Reply(f"Error: {error.format_message()}", is_error=True, code=code)))
    return error.exit_code
