"""The `commonplace` command: its options, its subcommands (imported when they are asked for), and how errors end it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

import click

from commonplace import __version__
from commonplace.cli.exits import INTERRUPTED
from commonplace.cli.place import Place
from commonplace.opening import DEFAULT_KEY, DEFAULT_PLACE
from commonplace.replies import LANGUAGES

COMMANDS: Mapping[str, str] = {
    "ls": "commonplace.cli.reading:ls",
    "view": "commonplace.cli.reading:view",
    "cat": "commonplace.cli.reading:cat",
    "create": "commonplace.cli.writing:create",
    "edit": "commonplace.cli.editing:edit",
    "replace": "commonplace.cli.writing:replace",
    "insert": "commonplace.cli.writing:insert",
    "rm": "commonplace.cli.writing:rm",
    "mv": "commonplace.cli.writing:mv",
    "stores": "commonplace.cli.reading:stores",
    "search": "commonplace.cli.searching:search",
    "log": "commonplace.cli.history:log",
    "show": "commonplace.cli.history:show",
    "diff": "commonplace.cli.history:diff",
    "blame": "commonplace.cli.history:blame",
    "restore": "commonplace.cli.undoing:restore",
    "undo": "commonplace.cli.undoing:undo",
    "redact": "commonplace.cli.removing:redact",
    "erase": "commonplace.cli.removing:erase",
    "settings": "commonplace.cli.settings:settings",
    "review": "commonplace.cli.review:review",
    "scan": "commonplace.cli.maintaining:scan",
    "sweep": "commonplace.cli.sweeping:sweep",
    "export": "commonplace.cli.transfer:export",
    "import": "commonplace.cli.transfer:import_",
    "backup": "commonplace.cli.transfer:backup",
    "restore-backup": "commonplace.cli.transfer:restore_backup",
    "migrate": "commonplace.cli.transfer:migrate",
    "audit": "commonplace.cli.audit:audit",
    "stats": "commonplace.cli.stats:stats",
    "doctor": "commonplace.cli.doctor:doctor",
    "keys": "commonplace.cli.keys:keys",
    "migrate-schema": "commonplace.cli.maintaining:migrate",
    "collect": "commonplace.cli.maintaining:collect",
    "exec": "commonplace.cli.executing:execute",
    "init": "commonplace.cli.projects:init",
    "chat": "commonplace.cli.chat:chat",
    "demo": "commonplace.cli.demo:demo",
}
"""Where each subcommand stands, in the order of the help."""


class LateGroup(click.Group):
    """A group that imports a subcommand when it is needed: one `commonplace view` pays for `view` alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of this name, if there is one."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LateGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--at",
    metavar="URL",
    default=DEFAULT_PLACE,
    envvar="COMMONPLACE_AT",
    show_default=True,
    show_envvar=True,
    help="Where the memory rests: a directory, sqlite:///FILE (four slashes before an absolute path), postgresql://,"
    " mariadb://, s3://, gs:// or az://.",
)
@click.option(
    "--store",
    metavar="KEY",
    default=DEFAULT_KEY,
    envvar="COMMONPLACE_STORE",
    show_default=True,
    show_envvar=True,
    help="The memory store, by key or id.",
)
@click.option(
    "--actor",
    metavar="ACTOR",
    help="Who is recorded with a change, as in session:s1.  [default: user:LOGIN, the login name]",
)
@click.option(
    "--keys",
    metavar="FILE",
    help="The key file: memory stores are sealed.  [env var: COMMONPLACE_KEYS_FILE, or COMMONPLACE_KEYS, its contents]",
)
@click.option("--seal-paths", is_flag=True, help="Memory stores that are made hide their paths too. Needs keys.")
@click.option(
    "--lang",
    type=click.Choice(list(LANGUAGES)),
    default="en",
    show_default=True,
    help="The language of the replies.",
)
@click.version_option(__version__, prog_name="commonplace", message="%(prog)s %(version)s")
@click.pass_context
def app(
    ctx: click.Context, *, at: str, store: str, actor: str | None, keys: str | None, seal_paths: bool, lang: str
) -> None:
    """Durable, versioned, shared memory for Claude's memory tool.

    Reads and changes memories as the tool does: same paths (/memories/...), same commands, same replies.
    """
    ctx.obj = Place(at=at, key=store, actor=actor, language=lang, keys=keys, seal_paths=seal_paths)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on `arguments` (default: those of this process); its exit status. Bugs rise."""
    try:
        status = app.main(arguments, prog_name="commonplace", standalone_mode=False)
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return status if isinstance(status, int) else 0
