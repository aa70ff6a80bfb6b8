"""Moments, as people write them: a version, a time, or how long ago."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any, TypeAlias

import click

from retentive.store import MemoryStore

Moment: TypeAlias = datetime | str
"""A time with its zone, or the id of a version."""

VERSION = "memver_"
FORMS = "2026-11-21T10:00, 2026-11-21, 2h, 3d, today or yesterday"
_AGO = re.compile(r"([0-9]{1,9})\s*(s|min|m|h|d|w)(?:\s+ago)?", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(text: str, now: datetime) -> datetime:
    """The time meant, with its zone: the local one where none is given. A day is its beginning. Raises `ValueError`."""
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        if text in {"today", "yesterday"}:
            day = now.astimezone().date() - timedelta(days=text == "yesterday")
            return datetime.combine(day, time()).astimezone()
        given = datetime.fromisoformat(text)
        return given.astimezone() if given.tzinfo is None else given
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time such as {FORMS}.") from None


def _time(_ctx: click.Context, _param: click.Parameter, given: str | None) -> datetime | None:
    try:
        return None if given is None else parse_time(given, datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _moment(ctx: click.Context, param: click.Parameter, given: str | None) -> Moment | None:
    return given if given is not None and given.startswith(VERSION) else _time(ctx, param, given)


def time_option(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds an option that takes a time."""
    return click.option(name, metavar="TIME", callback=_time, help=text)


def moment_option(*names: str, text: str, required: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds an option that takes a time or a version."""
    return click.option(*names, metavar="TIME|VERSION", callback=_moment, required=required, help=text)


def then(store: MemoryStore, memory_id: str, at: Moment) -> str | None:
    """The version that a memory had at a moment, wherever it lay; None if it was not there.

    Raises `NotFound`, `InvalidInput` as `History.at`.
    """
    found = store.read(lambda now: store.history.at(at, now).find(memory_id))
    return None if found is None else found.version_id
