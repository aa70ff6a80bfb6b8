"""Global options of `retentive`. They are accepted before and after the name of every command."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import click
from click.core import ParameterSource

from retentive.cli.location import Location
from retentive.cli.parameters import STORE, user_by_default
from retentive.opening import DEFAULT_KEY, DEFAULT_LOCATION

FORMATS = ("json", "ndjson", "csv", "table")
_FORMAT = "retentive.cli.format"  # key of the chosen format in `meta` of the click context
JSON_HELP = "Print the result as JSON: one object or list on one line."

GLOBAL_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--at": {
        "metavar": "LOCATION",
        "default": DEFAULT_LOCATION,
        "envvar": "RETENTIVE_AT",
        "help": "Location of the memory: a directory, sqlite:///FILE (four slashes before an absolute path),"
        " postgresql://, mariadb://, s3://, gs://, az://, or the https:// URL of a server, with RETENTIVE_API_KEY.",
    },
    "--store": {
        "metavar": "KEY",
        "type": STORE,
        "default": DEFAULT_KEY,
        "envvar": "RETENTIVE_STORE",
        "help": "Key or id of the memory store.",
    },
    "--actor": {
        "metavar": "ACTOR",
        "help": "Actor recorded with changes: a user's name, or KIND:NAME such as session:s1."
        "  [default: your login name]",
    },
    "--keys": {
        "metavar": "FILE",
        "help": "Key file; new memory stores are encrypted."
        "  [env var: RETENTIVE_KEYS_FILE, or RETENTIVE_KEYS, its contents]",
    },
    "--json": {"is_flag": True, "help": JSON_HELP},
    "--csv": {"is_flag": True, "help": "Print the result as CSV, with a header."},
    "--format": {
        "type": click.Choice(FORMATS),
        "metavar": "FORMAT",
        "help": "Format of the result: json, ndjson (one object per line), csv, or table (as on a terminal).",
    },
}
_FIELDS = {"at": "url", "store": "store_key", "actor": "actor", "keys": "keys"}
"""Field of `Location` that stores the value of each global option."""


class GlobalOption(click.Option):
    """Global option of a command. Only `retentive --help` describes it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the names and the help of the option, or None below `retentive` itself."""
        return super().get_help_record(ctx) if ctx.parent is None else None


def global_options(*, taken: Collection[str] = (), root: bool = False) -> list[click.Parameter]:
    """Return the global options, except those in `taken`. The options have defaults only if `root` is true."""
    found: list[click.Parameter] = []
    for flag, given in GLOBAL_OPTIONS.items():
        if flag not in taken:
            # An option after a command has no default: a default would override the value given before the command.
            attributes = {name: value for name, value in given.items() if root or name not in {"default", "envvar"}}
            name = f"global{flag.replace('-', '_')}"  # a command may have an argument `store`
            attributes |= {"expose_value": False, "callback": _remember, "show_envvar": True}
            found.append(GlobalOption([flag, name], **attributes))
    return found


def add_global_options(command: click.Command, *, without: Collection[str] = ()) -> None:
    """Add the global options to a command, except `without` and the options that the command defines itself."""
    own = {flag for param in command.params for flag in param.opts}
    command.params += global_options(taken=own | set(without))
    command.epilog = f"{command.epilog or ''} The options of `retentive --help` are accepted too.".strip()


def _remember(ctx: click.Context, option: click.Parameter, given: Any) -> None:
    """Store the value of a global option in the context. The contexts of subcommands inherit this value."""
    if given is None or given is False:
        return
    name = option.opts[0].removeprefix("--").replace("-", "_")
    if name in {"json", "csv", "format"}:
        choose_format(ctx, option, given if name == "format" else name)
        return
    known = ctx.obj if isinstance(ctx.obj, Location) else Location()
    is_typed = ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
    changes: dict[str, Any] = {_FIELDS[name]: user_by_default(ctx, option, given) if name == "actor" else given}
    ctx.obj = replace(known, typed=known.typed | {name} if is_typed else known.typed, **changes)


def choose_format(ctx: click.Context, _option: click.Parameter, given: str | bool) -> None:
    """Store the output format in the context. `given` is the name of a format, or True for JSON."""
    if given:
        ctx.meta[_FORMAT] = "json" if given is True else given


def chosen_format() -> str | None:
    """Return the format that the user chose for the current command.

    Return None if the user chose no format. The command then prints plain lines in a pipe, and tables on a terminal.
    """
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_FORMAT)


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Return whether command-line arguments ask for JSON. The arguments need not be valid."""
    given = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    formats = [after for before, after in pairwise(given) if before == "--format"]
    formats += [each.removeprefix("--format=") for each in given if each.startswith("--format=")]
    return "--json" in given or bool({"json", "ndjson"} & set(formats))
