"""The corpus of hostile texts, stored in every place of a memory store that the console shows."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import retentive
from retentive import MemoryStore
from support import hostile
from support.console import pages_of


def plant(opened: retentive.Retentive, step: int = 1) -> MemoryStore:
    """Store the corpus, or each `step`-th of its texts, in texts, paths, actors, names, settings and proposals."""
    names, texts = list(hostile.names()), hostile.texts()[::step]
    made = opened.create_store(names[0], description=names[1][:1_000], key=names[2], metadata={"x": names[3]})
    store = opened.store(made.id)
    store.create("/memories/index.md", "\n\n".join(texts), actor=f"user:{names[4]}")
    store.create("/memories/raw.txt", "\n".join(texts), actor=f"session:{names[5]}")
    store.write("/memories/raw.txt", "\n".join(texts[::-1]), actor=f"session:{names[6]}")
    for at, name in enumerate(hostile.path_names()):
        source = names[(at + 1) % len(names)]
        store.create(f"/memories/{name}", source, actor=f"session:{names[at]}", source=f"web:{source}", session=source)
    store.change_settings(
        {
            "audit": True,
            "quarantine": [f"session:{names[7]}"],
            "trust": {"session:*": "unconfirmed", f"source:{names[8]}": "unconfirmed"},
            "review": ["session:new*"],
            "read_only_paths": [f"/memories/{next(hostile.path_names())}"],
        }
    )
    for name in list(hostile.path_names())[:8]:
        store.create(f"/memories/d{name}/x.md", "")
    store.create("/memories/<b>proposed.md", "\n".join(hostile.texts()[:60]), actor=f"session:new{names[9]}")
    store.delete(f"/memories/{list(hostile.path_names())[-1]}", actor=f"session:{names[10]}")
    return store


def urls(store: MemoryStore) -> Iterator[str]:
    """Every page of the store, with the queries that show hostile text."""
    at, name = f"/console/s/{store.id}", next(hostile.names())
    versions = store.history.log("/memories/raw.txt")
    proposal = store.review.pending()[0].id
    path = quote(list(hostile.path_names())[3])
    ids = {
        "path": path, "memory_id": versions[0].memory_id, "version_id": versions[0].id,
        "pair": f"{versions[1].id}..{versions[0].id}", "revision": versions[0].id, "proposal_id": proposal,
        "actor": quote(str(versions[0].actor), safe=""),
    }  # fmt: skip
    yield from (url for url in pages_of(store.id, **ids) if not url.endswith(("/file", "/download", "/events")))
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
        f"m/{quote(list(hostile.path_names())[-1])}", f"m/{asked}", f"undo?change={asked}", f"go?path={asked}",
    ):  # fmt: skip
        yield f"{at}/{query}"
    yield from (f"/console/?q={asked}", "/console/", f"/console/login?next={asked}")
