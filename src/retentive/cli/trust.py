"""`trust`: list and confirm memories that are not trusted, and quarantine their contributors."""

from __future__ import annotations

import click

from retentive.cli import layouts, output
from retentive.cli.location import Location
from retentive.engine.trust import LEVELS, TRUSTED, Level
from retentive.values.paths import ROOT

_DOUBTED = [level for level in LEVELS if level != TRUSTED]


@output.group("trust", default="list")
def trust() -> None:
    """List the memories that are not trusted, confirm them, and put actors, sessions or sources in quarantine.

    `retentive settings set 'trust={"session:*": "unconfirmed"}'` sets the level of trust
    for changes by actors that match session:*.
    """


@output.command("list", group=trust, json="Print a JSON list.")
@click.argument("path", default=ROOT)
@click.option("--trust", "level", type=click.Choice(_DOUBTED), help="Only memories at this level.")
def show_list(location: Location, path: str, *, level: Level | None) -> None:
    """List the memories at or below PATH that are not trusted, with the reasons. Hidden memories are included.

    In a pipe each line has a level, the path and the contributors, separated by tabs.
    """
    with location.existing() as store:
        found = store.trust.doubted(path, level=level)
    rows = [(each.level, each.path, "; ".join(each.contributors)) for each in found]
    columns = "trust", "path", "because of"
    table = layouts.Table(columns, rows, empty="All memories are trusted.", shortens=columns[2:])
    output.emit(found, plain=rows, shown=[table])


@output.command("confirm", group=trust, json="Print a JSON list of paths.")
@click.argument("path")
def confirm(location: Location, path: str) -> None:
    """Trust the current text of a memory, or of all memories below a directory.

    If the memory was hidden, it becomes visible. Later changes by actors that are not trusted need a new confirmation.
    """
    with location.existing() as store:
        paths = store.trust.confirm(path, actor=store.actor)
    output.emit(paths, plain="".join(f"{each} is confirmed.\n" for each in paths) or "No memories.\n")


@output.command("quarantine", group=trust, json='Print a JSON object: {"pattern", "changed"}.')
@click.argument("pattern")
def quarantine(location: Location, pattern: str) -> None:
    """Hide all memories to which an actor, a session or a source contributed. They are hidden from everybody.

    PATTERN has the same form as the patterns in the setting `trust`: session:s1, user:* or
    'source:web:*'. The quarantine takes effect at once. Nothing is deleted; `retentive trust release` with the same
    pattern ends the quarantine.
    """
    with location.existing() as store:
        is_new = store.trust.quarantine(pattern, actor=store.actor)
    _emit(pattern, "is in quarantine" if is_new else "was already in quarantine", changed=is_new)


@output.command("release", group=trust, json='Print a JSON object: {"pattern", "changed"}.')
@click.argument("pattern")
def release(location: Location, pattern: str) -> None:
    """End the quarantine of the given pattern."""
    with location.existing() as store:
        was_there = store.trust.release(pattern, actor=store.actor)
    _emit(pattern, "is released" if was_there else "was not in quarantine", changed=was_there)


def _emit(pattern: str, said: str, *, changed: bool) -> None:
    output.emit({"pattern": pattern, "changed": changed}, plain=f"{pattern} {said}.\n")
