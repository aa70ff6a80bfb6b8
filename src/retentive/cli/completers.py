"""Shell completion of paths, memory stores and versions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from retentive.cli.location import Location
from retentive.engine.operation import Read
from retentive.engine.queries import list_memories
from retentive.errors import RetentiveError
from retentive.opening import Retentive
from retentive.store import core_of

MAX_VERSIONS = 50


def paths(ctx: click.Context, incomplete: str, absolute: Callable[[str], str]) -> list[CompletionItem]:
    """Return the memories and directories whose path starts with `incomplete`, without those in deeper directories.

    `absolute` converts a path to an absolute path.
    """
    typed = incomplete[: incomplete.rfind("/") + 1]
    directory = absolute(typed or ".").rstrip("/")

    def work(location: Location, opened: Retentive) -> list[CompletionItem]:
        core = core_of(location.chosen(opened))
        below = [each.path[len(directory) + 1 :] for each in core.peek(list_memories(core.parsed(directory)))]
        names = sorted({"".join(path.partition("/")[:2]) for path in below})
        return [CompletionItem(typed + name) for name in names if (typed + name).startswith(incomplete)]

    return _completed(ctx, work)


def stores(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the memory stores whose key starts with `incomplete`. For a store without a key, its id is used."""

    def work(_: Location, opened: Retentive) -> list[CompletionItem]:
        found = [(info.key or info.id, info.name) for info in opened.stores()]
        return [CompletionItem(key, help=name) for key, name in found if key.startswith(incomplete)]

    return _completed(ctx, work)


def versions(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the newest versions whose id starts with `incomplete`, each with its operation and path as help text."""
    newest = Read("versions", lambda snapshot: list(snapshot.versions(limit=MAX_VERSIONS)))

    def work(location: Location, opened: Retentive) -> list[CompletionItem]:
        found = [each for each in core_of(location.chosen(opened)).peek(newest) if each.id.startswith(incomplete)]
        return [CompletionItem(each.id, help=f"{each.operation} {each.path}") for each in found]

    return _completed(ctx, work)


def _completed(ctx: click.Context, work: Callable[[Location, Retentive], list[CompletionItem]]) -> list[CompletionItem]:
    """Return the completions that `work` finds. Returns no completions if the location cannot be opened or read."""
    location = ctx.find_object(Location) or Location()
    with suppress(RetentiveError), location.opened() as opened:
        return work(location, opened)
    return []
