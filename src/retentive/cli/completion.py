"""`completion`, and the completion of paths, memory stores and versions in shells."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem, get_completion_class

from retentive.cli import output
from retentive.cli.location import Location
from retentive.cli.parameters import MEMORY_PATH
from retentive.engine.operation import Read
from retentive.engine.queries import list_memories
from retentive.errors import RetentiveError
from retentive.opening import Retentive
from retentive.store import core_of

PROGRAM, VARIABLE = "retentive", "_RETENTIVE_COMPLETE"
MAX_VERSIONS = 50


@output.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(_location: Location, shell: str) -> None:
    """Print the script that completes commands, options, paths, memory stores and versions in SHELL.

    Run the example of your shell once; zsh reads the directories of its $fpath. Paths, stores and versions are those of
    the location on the command line, or of RETENTIVE_AT. Completion creates and changes nothing.
    """
    found = get_completion_class(shell)
    assert found is not None
    output.write_text(found(click.Command(PROGRAM), {}, PROGRAM, VARIABLE).source())


def paths(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The memories and directories whose path starts with the words typed, one level at a time."""
    typed = incomplete[: incomplete.rfind("/") + 1]
    directory = str(MEMORY_PATH.convert(typed or ".", None, None)).rstrip("/")

    def work(location: Location, opened: Retentive) -> list[CompletionItem]:
        core = core_of(location.chosen(opened))
        below = [each.path[len(directory) + 1 :] for each in core.peek(list_memories(core.parsed(directory)))]
        names = sorted({"".join(path.partition("/")[:2]) for path in below})
        return [CompletionItem(typed + name) for name in names if (typed + name).startswith(incomplete)]

    return _completed(ctx, work)


def stores(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The keys of the memory stores."""

    def work(_: Location, opened: Retentive) -> list[CompletionItem]:
        found = [(info.key or info.id, info.name) for info in opened.stores()]
        return [CompletionItem(key, help=name) for key, name in found if key.startswith(incomplete)]

    return _completed(ctx, work)


def versions(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The newest versions, with their paths."""
    newest = Read("versions", lambda snapshot: list(snapshot.versions(limit=MAX_VERSIONS)))

    def work(location: Location, opened: Retentive) -> list[CompletionItem]:
        found = [each for each in core_of(location.chosen(opened)).peek(newest) if each.id.startswith(incomplete)]
        return [CompletionItem(each.id, help=f"{each.operation} {each.path}") for each in found]

    return _completed(ctx, work)


def _completed(ctx: click.Context, work: Callable[[Location, Retentive], list[CompletionItem]]) -> list[CompletionItem]:
    """The completions at the location, if it exists. Errors complete nothing."""
    location = ctx.find_object(Location) or Location()
    with suppress(RetentiveError), location.opened() as opened:
        return work(location, opened)
    return []
