"""Commands and groups, and the global options, which are accepted before and after the name of every command."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Concatenate, ParamSpec

import click
from click.core import ParameterSource

from retentive.cli.exits import status_of
from retentive.cli.location import Location, failure, pass_location
from retentive.cli.output import FORMAT, emit
from retentive.cli.parameters import complete_stores, user_by_default
from retentive.errors import RetentiveError
from retentive.opening import DEFAULT_KEY, DEFAULT_LOCATION
from retentive.values.extras import pip_install

P = ParamSpec("P")
_NUMBER = re.compile(r"-[0-9]+", re.ASCII)
_EXTRAS = {"mcp": "mcp", "encryption": "crypto", "demo": "anthropic", "tidy": "anthropic"}
"""Extra that a command needs. The other ones that need any need `server`."""

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
        "shell_complete": complete_stores,
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
    "--json": {"is_flag": True, "help": "Print the result as JSON: one object or list on one line."},
    "--csv": {"is_flag": True, "help": "Print the result as CSV, with a header."},
    "--format": {
        "type": click.Choice(("json", "csv", "table")),
        "metavar": "FORMAT",
        "help": "Format of the result: json, csv, or table (as on a terminal).",
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


def _remember(ctx: click.Context, option: click.Parameter, given: Any) -> None:
    """Store the value of a global option in the context. The contexts of subcommands inherit this value."""
    if given is None or given is False:
        return
    name = option.opts[0].removeprefix("--")
    if name not in _FIELDS:
        ctx.meta[FORMAT] = given if name == "format" else name
        return
    known = ctx.obj if isinstance(ctx.obj, Location) else Location()
    is_typed = ctx.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
    changes: dict[str, Any] = {_FIELDS[name]: user_by_default(ctx, option, given) if name == "actor" else given}
    ctx.obj = replace(known, typed=known.typed | {name} if is_typed else known.typed, **changes)


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Return whether command-line arguments ask for JSON. The arguments need not be valid."""
    given = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    return bool({"--json", "--format=json"} & set(given)) or ("--format", "json") in pairwise(given)


class Command(click.Command):
    """Subcommand that prints the message of a `RetentiveError` and exits with its status. Other exceptions are raised.

    `json` is the help text of the option --json. If it is empty, the command has no formats for programs.
    """

    def __init__(self, *args: Any, json: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if json:
            self.params.append(
                click.Option(["--json"], is_flag=True, expose_value=False, callback=_remember, help=json)
            )
        _accept_global_options(self, set() if json else {"--json", "--csv", "--format"})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. `-3` is `-n 3`, as in Git."""
        if any("-n" in param.opts for param in self.params):
            end = args.index("--") if "--" in args else len(args)
            for at, (before, each) in enumerate(zip(["", *args], args[:end], strict=False)):
                if _NUMBER.fullmatch(each) and before not in {"-n", "--limit"}:
                    args[at] = f"-n{each[1:]}"
        return super().parse_args(ctx, args)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of the help. Click would cut it."""
        return super().get_short_help_str(max(limit, 200))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. If it raises a `RetentiveError`, print the error and exit with its status."""
        try:
            return super().invoke(ctx)
        except RetentiveError as error:
            reply = failure(error)
            emit(reply, error=reply.text, status=status_of(reply.code))
        except ImportError as error:
            raise lacking(str(self.name), error) from None


def lacking(name: str, error: ImportError) -> click.UsageError:
    """Return the error for a command that needs a package which is not installed."""
    if error.name is not None and error.name.startswith("retentive."):
        raise error
    why = f": {error}"  # if there is no name, the message names the extra
    if error.name is not None:
        why = f" needs {error.name}: {pip_install(_EXTRAS.get(name, 'server'))}"
    return click.UsageError(f"`retentive {name}`{why}")


def command(
    name: str | None = None, *, group: click.Group | None = None, json: str = ""
) -> Callable[[Callable[Concatenate[Location, P], None]], click.Command]:
    """Return a decorator that turns a function into a subcommand.

    The function gets the `Location` as its first argument. `json` has the same meaning as in `Command`.
    """
    return lambda function: (group or click).command(name, cls=Command, json=json)(pass_location(function))


class Group(click.Group):
    """Command with subcommands. Without one of them, the subcommand `default` runs, or the help is shown."""

    def __init__(self, *args: Any, default: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.invoke_without_command, self.no_args_is_help = bool(default), not default
        self.default = default
        self.epilog = f"Without a command, runs `{default}`." if default else None
        _accept_global_options(self)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the given subcommand, or the default one."""
        done = super().invoke(ctx)
        if ctx.invoked_subcommand is not None:
            return done
        command = self.commands[self.default]
        with command.make_context(self.default, [], parent=ctx) as inner:
            return command.invoke(inner)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of their definition."""
        return list(self.commands)


def _accept_global_options(command: click.Command, without: Collection[str] = ()) -> None:
    """Add the global options to a command, except `without` and the options that the command defines itself."""
    own = {flag for param in command.params for flag in param.opts}
    command.params += global_options(taken=own | set(without))
    command.epilog = f"{command.epilog or ''} The options of `retentive --help` are accepted too.".strip()
