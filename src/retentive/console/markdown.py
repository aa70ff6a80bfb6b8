"""Markdown of memories as safe HTML, without raw HTML, images, ids and scripts. Each link shows its host."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
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
    """Render a text as HTML. `base` is the URL of the memories; links to paths such as /memories/notes.md use it."""
    raw = _parser().render(text, {"base": base, "hosts": []})
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


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
    parser.add_render_rule("heading_open", _below_page)
    parser.add_render_rule("heading_close", _below_page)
    parser.add_render_rule("link_open", _open)
    parser.add_render_rule("link_close", _close)
    return parser


def _below_page(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    """Render a heading one level lower, because only the title of the page is a heading of the first level."""
    tokens[at].tag = f"h{min(int(tokens[at].tag[1:]) + 1, 6)}"
    return renderer.renderToken(tokens, at, options, env)


def _open(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    href = str(tokens[at].attrs.get("href", ""))
    env["hosts"].append(_host(href))
    if _MEMORY.fullmatch(href):
        href = env["base"] + href.removeprefix("/memories")
    return f'<a href="{escape(href)}">'


def _close(
    renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    host = env["hosts"].pop() if env["hosts"] else ""
    return f'</a> <span class="host">{escape(host)}</span>' if host else "</a>"


def _host(href: str) -> str:
    """Return the host that a link leads to. Empty for a link to a memory."""
    try:
        parts = urlsplit(href)
        return parts.path.rpartition("@")[2] if parts.scheme == "mailto" else parts.hostname or ""
    except ValueError:
        return "invalid address"
