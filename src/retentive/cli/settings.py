"""`settings`: showing and changing what a memory store allows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from retentive.cli import output
from retentive.cli.location import Location, pass_location
from retentive.errors import InvalidInput
from retentive.values.settings import Settings, describe


@click.group("settings")
def settings() -> None:
    """Show or change the settings of a memory store: limits, and who may change what.

    They are kept with the store, and hold at once for every process that has it open.
    """


@settings.command("show", cls=output.Command)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object of all settings.")
@pass_location
def show(location: Location, *, as_json: bool) -> None:
    """Show all settings, and which are not the default."""
    with location.existing() as store:
        found = store.settings()
    _print(found, as_json=as_json)


@settings.command("set", cls=output.Command)
@click.argument("changes", nargs=-1, metavar="NAME=VALUE...")
@click.option(
    "--file", "file", type=click.Path(dir_okay=False, path_type=Path), help="A JSON object of settings to change."
)
@click.option("--unset", multiple=True, metavar="NAME", help="Set this one back to its default. May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object of all settings afterwards.")
@pass_location
def change(
    location: Location, changes: tuple[str, ...], *, file: Path | None, unset: tuple[str, ...], as_json: bool
) -> None:
    """Change settings, all or none.

    A VALUE is JSON (4000, true, ["/memories/team/**"]) or a plain word. What does not fit is refused with the reason.
    """
    given: dict[str, object] = _from_file(file) if file is not None else {}
    given |= _each_once([*map(_parsed, changes), *((name, None) for name in unset)])
    if not given:
        raise InvalidInput("name a setting to change, as in max_memories=500")
    with location.existing() as store:
        store.change_settings(given)
        found = store.settings()
    _print(found, as_json=as_json)


def _from_file(file: Path) -> dict[str, object]:
    try:
        given = json.loads(file.read_text("utf-8"), object_pairs_hook=_each_once)
    except OSError as error:
        raise InvalidInput(f"the settings file cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput(f"the settings file is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidInput('the settings file must hold one JSON object: {"max_memories": 500}')
    return given


def _each_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Names with values. Raises `InvalidInput` for one that is given twice: nobody can tell which is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise InvalidInput(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
    return found


def _parsed(change: str) -> tuple[str, object]:
    name, equals, value = change.partition("=")
    if not equals:
        raise InvalidInput(f"{change!r} is not NAME=VALUE, as in max_memories=500")
    try:
        return name, json.loads(value, object_pairs_hook=_each_once)
    except ValueError:
        return name, value


def _print(found: Settings, *, as_json: bool) -> None:
    values = asdict(found)
    rows = [(name, json.dumps(values[name]), usual, text) for name, usual, text in describe()]
    marked = [(name, value, "" if value == usual else usual, text) for name, value, usual, text in rows]
    output.emit(
        values,
        as_json=as_json,
        plain=(row[:2] for row in rows),
        shown=[output.Table(("setting", "value", "default", "meaning"), marked)],
    )
