"""Markdown of memories as safe HTML, without raw HTML, images, ids and scripts. Each link shows its host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from retentive.console.rendering import plain

MAX_RENDERED_BYTES = 256 << 10
"""Longer texts are shown raw, because rendering 100 KB takes a quarter of a second."""
_TAGS = frozenset(
    "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s hr br table thead tbody tr th td a span".split()  # noqa: SIM905 - shorter
)
_OUTWARD = re.compile(r"(https?://|mailto:)[^\s]+", re.IGNORECASE)
_MEMORY = re.compile(r"/memories(/[^\s?#]*)?")
_TASKS = re.compile(r"<li>(\s*<p>)?\[([ xX])\] ")


@lru_cache(maxsize=256)
def rendered(text: str, base: str) -> Markup:
    """Render a text as HTML. `base` is the URL of the memories; links to paths such as /memories/notes.md use it.

    Headings are one level lower, because only the title of the page is a heading of the first level.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(int(token.tag[1:]) + 1, 6)}"
        if token.children:
            token.children = list(_with_hosts(token.children, base))
    raw = parser.renderer.render(tokens, parser.options, {})
    clean = nh3.clean(
        raw,
        tags=set(_TAGS),
        attributes={"a": {"href"}},
        allowed_classes={"span": {"host"}},
        set_tag_attribute_values={"pre": {"tabindex": "0"}},  # long lines can be scrolled by keyboard
        attribute_filter=lambda _, name, value: _kept(name, value, base),
        generic_attribute_prefixes=set(),
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    ticked = _TASKS.sub(lambda found: f"<li>{found[1] or ''}{'☐' if found[2] == ' ' else '☑'} ", clean)
    return Markup(plain(ticked))  # noqa: S704 - cleaned above


def _kept(name: str, value: str, base: str) -> str | None:
    if name != "href" or _OUTWARD.fullmatch(value) or value == base or value.startswith(base + "/"):
        return value
    return None


def _with_hosts(tokens: Iterable[Token], base: str) -> Iterator[Token]:
    """Yield the tokens of a line, with the host behind each link. Links to memories lead to their pages."""
    hosts = list[str]()
    for token in tokens:
        if token.type == "link_open":
            href = str(token.attrs.get("href", ""))
            hosts.append(_host(href))
            token.attrs["href"] = base + href.removeprefix("/memories") if _MEMORY.fullmatch(href) else href
        yield token
        if token.type == "link_close" and hosts and (host := hosts.pop()):
            yield Token("html_inline", "", 0, content=f' <span class="host">{escape(host)}</span>')


def _host(href: str) -> str:
    """Return the host that a link leads to. Empty for a link to a memory."""
    try:
        parts = urlsplit(href)
        return parts.path.rpartition("@")[2] if parts.scheme == "mailto" else parts.hostname or ""
    except ValueError:
        return "invalid address"
