"""Pages from templates: filters for stored texts, paths, actors, times and sizes, and the URLs of pages.

Invisible, control and bidirectional characters of stored texts are shown, because they can deceive.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import Response

from retentive.storage.contract import Actor, StoreInfo
from retentive.values.listing import counted
from retentive.values.paths import ROOT

BASE = "/console"
ID = "memstore_"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send `Origin: null` with our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
PRIVATE = {**HEADERS, "cache-control": "no-store", "vary": "cookie"}
"""Headers of pages, which no browser keeps."""

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
_FILLERS = "\u115f\u1160\u3164\uffa0\u2800"
"""Characters that look like spaces, although Unicode counts them as letters or symbols."""
_RISKY = re.compile(r"[^\n\t -~]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def is_hidden(char: str) -> bool:
    """Return whether a character is invisible, or changes the display of other characters."""
    return unicodedata.category(char) in _HIDDEN or char in _FILLERS or 0xFE00 <= ord(char) <= 0xFE0E


def plain(text: str) -> str:
    """Replace each hidden character by its code point, such as `⟦U+202E⟧`."""
    return _RISKY.sub(lambda found: f"⟦U+{ord(found[0]):04X}⟧" if is_hidden(found[0]) else found[0], text)


def boxed(text: str) -> Markup:
    """Return the text as HTML. Each hidden character becomes a box with its code point."""
    return Markup(_RISKY.sub(_box, str(escape(text))))  # noqa: S704 - escaped here


def _box(found: re.Match[str]) -> str:
    if not is_hidden(found[0]):
        return found[0]
    name = unicodedata.name(found[0], "control character").lower()
    return f'<span class="box" title="{name}">U+{ord(found[0]):04X}</span>'


def marked(text: str, spans: Sequence[tuple[int, int]], tag: str = "mark") -> Markup:
    """Return the same HTML as `boxed`, with each span inside an element such as `<mark>`."""
    found, at = Markup(""), 0
    for start, end in spans:
        found += boxed(text[at:start]) + Markup("<{0}>{1}</{0}>").format(tag, boxed(text[start:end]))
        at = end
    return found + boxed(text[at:])


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
    own = (boxed, counted, size, when, who)
    found.filters |= {"number": lambda value: f"{value:,}", "path": page_path, "verbatim": escape}
    found.filters |= {each.__name__: each for each in own}
    found.globals |= {
        "static": static_url, "shortcuts": SHORTCUTS, "store_url": store_url, "name_of": name_of,
        "is_pattern": is_pattern,
    }  # fmt: skip
    return found


def html_page(template: str, title: str = "", status: int = 200, /, **values: object) -> Response:
    """Return the response for a page: a template with its values, in the frame of all pages.

    A template whose name starts with an underscore is a part of a page, and gets no frame.
    """
    common = {"visit": None, "info": None, "at": "", "title": title, "page": template}
    body = environment().get_template(template if template[0] == "_" else "base.html").render(common | values)
    return Response(body, status, PRIVATE, media_type="text/html")


def _shown(value: object) -> object:
    if value is None:
        return ""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def who(actor: Actor | str | None) -> Markup:
    """Render an actor. The shape shows its kind; its colour is the same on all pages."""
    if actor is None or actor == "":
        return Markup('<span class="who">unknown</span>')
    text = str(actor)
    kind = _KINDS.get(text.partition(":")[0], "job")
    colour = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).digest()[0] % 8
    return Markup('<span class="who {} c{}"><bdi>{}</bdi></span>').format(kind, colour, boxed(text))


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


def page_path(text: str) -> str:
    """Convert a memory path to a path in a URL, percent-encoded."""
    return quote(text.removeprefix(ROOT).lstrip("/"), safe="/")


def is_pattern(name: str) -> bool:
    """Return whether an undo or a filter reads the name of an actor or a session as a pattern."""
    return "*" in name or "?" in name


def name_of(info: StoreInfo) -> str:
    """Return the name of a memory store for people: its key, or else its name or id."""
    return info.key or info.name or info.id


def store_url(info: StoreInfo, *parts: str, **query: object) -> str:
    """Return the URL of a page of a store, named by its key or else by its id. `parts` must be percent-encoded already.

    The path of a URL is decoded before it is split, so a slash in a key is encoded twice.
    """
    name = info.id
    if info.key and not info.key.startswith(ID) and info.key not in {".", ".."}:
        name = quote(info.key.replace("%", "%25").replace("/", "%2F"), safe="")
    return with_query("/".join([BASE, "s", name, *parts]), **query)


def with_query(url: str, **query: object) -> str:
    """Return a URL with a query. Empty fields are left out."""
    asked = {name: value for name, value in query.items() if value not in {None, ""}}
    return url + (f"?{urlencode(asked)}" if asked else "")


@lru_cache
def static_file(name: str) -> bytes:
    """Return the content of a static file."""
    return resources.files("retentive.console").joinpath("static", name).read_bytes()


@lru_cache
def static_url(name: str) -> str:
    """Return the URL of a static file. The URL changes with the content, so browsers may cache the file."""
    return f"{BASE}/static/{hashlib.sha256(static_file(name)).hexdigest()[:12]}/{name}"
