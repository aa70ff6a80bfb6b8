"""Templates and their filters for paths, actors, times and sizes. Hidden characters in stored texts are shown."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from retentive.console.visible import boxed, plain
from retentive.console.visits import page_path, store_url, url_name
from retentive.storage.contract import Actor
from retentive.values.paths import ROOT

STATIC = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "htmx.js": "text/javascript",
    "live.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
SHORTCUTS = (
    (("/",), "search"),
    (("t",), "go to a path"),
    (("g s", "g m", "g a", "g r"), "stores, memories, activity, review"),
    (("j", "k"), "next and previous row"),
    (("o",), "open the row"),
    (("x",), "select the proposal"),
    (("a", "r"), "accept and refuse the shown proposal"),
    (("e", "b", "h"), "edit, blame and history of the memory"),
    (("p",), "the version before the change of the line, in blame"),
    (("[", "]"), "older and newer change, version or page"),
    (("y",), "permanent link of the shown version"),
    (("u",), "preview of an undo"),
    (("?",), "this list"),
)
"""Keys with a description of what they do. A key activates a visible link or button, or moves the focus."""
_KINDS = {"session": "session", "user": "user", "service_account": "job", "job": "job", "api_key": "key"}
_COLOURS = 8


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
        "size": size,
        "path": page_path,
        "inner": inner,
        "verbatim": escape,
        "counted": counted,
        "number": lambda value: f"{value:,}",
    }
    found.globals |= {"static": static_url, "shortcuts": SHORTCUTS, "store_url": store_url, "url_name": url_name}
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


def size(count: int | None) -> str:
    """Format a number of bytes, such as `1.5 KB`."""
    if count is None:
        return ""
    for exponent, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if count >= 1_000**exponent:
            return f"{count / 1_000**exponent:.1f} {unit}"
    return f"{count} B"


def counted(count: int, one: str, many: str = "") -> str:
    """Format a number with its noun, such as `1 memory` or `1,200 memories`. The plural ends with `s` by default."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def inner(text: str) -> str:
    """Return a path without `/memories/`."""
    return text.removeprefix(ROOT).lstrip("/") or "/"


def shortcuts_table() -> str:
    """Return the table of keys for the documentation, as Markdown."""
    rows = (f"| {' '.join(f'`{key}`' for key in keys)} | {meaning} |" for keys, meaning in SHORTCUTS)
    return "\n".join(["| keys | |", "| --- | --- |", *rows])


@lru_cache
def static_file(name: str) -> bytes:
    """Return the content of a static file."""
    return resources.files("retentive.console").joinpath("static", name).read_bytes()


@lru_cache
def static_url(name: str) -> str:
    """Return the URL of a static file. The URL changes with the content, so browsers may cache the file."""
    return f"/console/static/{hashlib.sha256(static_file(name)).hexdigest()[:12]}/{name}"
