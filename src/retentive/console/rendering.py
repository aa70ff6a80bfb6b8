"""Templates and their filters for paths, actors, times and sizes. Hidden characters in stored texts are shown."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from retentive.console.shortcuts import SHORTCUTS
from retentive.console.visible import boxed, plain
from retentive.console.visits import page_path
from retentive.storage.contract import Actor
from retentive.values.paths import ROOT

STATIC = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "htmx.js": "text/javascript",
    "live.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_KINDS = {"session": "session", "user": "user", "service_account": "job", "job": "job", "api_key": "key"}
_COLOURS = 8
FLUSH = Markup("\0")
"""Marker in the template of a streamed page. Everything before it is sent at once; the marker itself is not sent."""


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the template environment. It escapes values that are not markup, and replaces their hidden characters."""
    found = Environment(
        loader=PackageLoader("retentive.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "who": who,
        "when": when,
        "exact": exact_time,
        "size": size,
        "path": page_path,
        "inner": inner,
        "boxed": boxed,
        "verbatim": escape,
        "short": lambda text: text[:8],
    }
    found.globals |= {"flush": FLUSH, "static": static_url, "shortcuts": SHORTCUTS}
    return found


def _shown(value: object) -> object:
    if value is None:
        return ""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def colour(actor: str) -> int:
    """Return the number of the colour of an actor. It is the same on all pages."""
    return hashlib.blake2b(actor.encode("utf-8", "replace"), digest_size=4).digest()[0] % _COLOURS


def who(actor: Actor | str | None) -> Markup:
    """Render an actor. The shape shows the kind of actor, and the colour helps to distinguish actors."""
    if actor is None or actor == "":
        return Markup('<span class="who">unknown</span>')
    text = str(actor)
    kind = _KINDS.get(text.partition(":")[0], "job")
    return Markup('<span class="who {} c{}"><bdi>{}</bdi></span>').format(kind, colour(text), boxed(text))


def when(at: datetime | str | None) -> Markup:
    """Render a short form of a time, with the exact time in the attributes."""
    if not at:
        return Markup("")
    exact = datetime.fromisoformat(at) if isinstance(at, str) else at
    exact, now = exact.astimezone(UTC), datetime.now(UTC)
    if exact.date() == now.date():
        text = f"{exact:%H:%M}"
    else:
        text = f"{exact.day} {exact:%b}" + ("" if exact.year == now.year else f" {exact.year}")
    iso = exact.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(iso, text)


def exact_time(at: datetime) -> Markup:
    """Render a time with its date, for pages that are read later."""
    exact = at.astimezone(UTC)
    iso = exact.isoformat(timespec="seconds").replace("+00:00", "Z")
    return Markup('<time datetime="{0}">{1:%Y-%m-%d %H:%M} UTC</time>').format(iso, exact)


def size(count: int | None) -> str:
    """Format a number of bytes, such as `1.5 KB`."""
    if count is None:
        return ""
    if count < 1_000:
        return f"{count} B"
    for unit in ("KB", "MB", "GB"):
        count_in = count / 1_000
        if count_in < 1_000 or unit == "GB":
            return f"{count_in:.1f} {unit}"
        count = int(count_in)
    return ""


def inner(text: str) -> str:
    """Return a path without `/memories/`."""
    return text.removeprefix(ROOT).lstrip("/") or "/"


@lru_cache
def static_file(name: str) -> bytes:
    """Return the content of a static file."""
    return resources.files("retentive.console").joinpath("static", name).read_bytes()


@lru_cache
def static_url(name: str) -> str:
    """Return the URL of a static file. The URL changes with the content, so browsers may cache the file."""
    return f"/console/static/{hashlib.sha256(static_file(name)).hexdigest()[:12]}/{name}"
