"""`settings`: show and change the settings of a memory store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from retentive.cli import layouts, output
from retentive.cli.location import Location
from retentive.errors import InvalidInput
from retentive.values.settings import Settings, describe


@output.group("settings", default="show")
def settings() -> None:
    """Show or change the settings of a memory store, such as limits and permissions.

    Settings are stored in the memory store and apply at once, in every process that has the store open.
    """


@output.command("show", group=settings, json="Print a JSON object of all settings.")
def show(location: Location) -> None:
    """Show all settings. If a setting was changed, its default is shown too."""
    with location.existing() as store:
        found = store.settings()
    _emit(found)


@output.command("set", group=settings, json="Print a JSON object of all settings after the change.")
@click.argument("changes", nargs=-1, metavar="NAME=VALUE...")
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with a JSON object of settings to change.",
)
@click.option("--unset", multiple=True, metavar="NAME", help="Reset this setting to its default. May be repeated.")
def change(location: Location, changes: tuple[str, ...], *, file: Path | None, unset: tuple[str, ...]) -> None:
    """Change settings. If one of them is invalid, no setting is changed.

    A VALUE is JSON (4000, true, ["/memories/team/**"]) or a plain word. An invalid value is rejected with the reason.
    """
    given: dict[str, object] = _from_file(file) if file is not None else {}
    given |= _each_once([*map(_parsed, changes), *((name, None) for name in unset)])
    if not given:
        raise InvalidInput("specify a setting to change, such as max_memories=500")
    with location.existing() as store:
        store.change_settings(given)
        found = store.settings()
    _emit(found)


def _from_file(file: Path) -> dict[str, object]:
    try:
        given = json.loads(file.read_text("utf-8"), object_pairs_hook=_each_once)
    except OSError as error:
        raise InvalidInput(f"cannot read the settings file {file}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput(f"the settings file {file} is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidInput(f'the settings file {file} must contain one JSON object, such as {{"max_memories": 500}}')
    return given


def _each_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return a mapping from names to values. Raises `InvalidInput` for a repeated name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise InvalidInput(f"the name {next(n for n in names if names.count(n) > 1)!r} is given more than once")
    return found


def _parsed(change: str) -> tuple[str, object]:
    name, equals, value = change.partition("=")
    if not equals:
        raise InvalidInput(f"{change!r} does not have the form NAME=VALUE, such as max_memories=500")
    try:
        return name, json.loads(value, object_pairs_hook=_each_once)
    except ValueError:
        return name, value


def _emit(found: Settings) -> None:
    values = asdict(found)
    shown = [(name, json.dumps(values[name]), default, text) for name, default, text in describe()]
    rows = [(name, value, "" if value == default else default, text) for name, value, default, text in shown]
    table = layouts.Table(("setting", "value", "default", "meaning"), rows, folds=True)
    output.emit(values, plain=(row[:2] for row in rows), shown=[table])
