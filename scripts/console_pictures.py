"""Pictures of the web console, made from a small store in a real browser: six for docs/server.md, or all pages.

    python scripts/console_pictures.py [--all FOLDER]

With --all, each page is drawn in light at 1440 pixels and in dark at 390, in full length, to be looked at beside the
design. Needs Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

import retentive
from retentive import MemoryStore
from retentive.console.web import console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support.http_api import Api, serving  # noqa: E402 - after the path

PICTURES = {
    "memory": ("light", "m/playbooks/refunds.md"),
    "blame": ("dark", "m/playbooks/refunds.md?view=blame"),
    "difference": ("dark", "by/session:web-research-12"),
    "undo": ("light", "undo?change=r8&mode=merge"),
    "review": ("light", "review"),
    "past": ("light", "tree/?at=r6"),
}
REFUNDS = """\
# Refunds

How we refund orders, for every support session. See [shipping](/memories/playbooks/shipping.md) and
[the vendor](https://vendor.example/page).

## Rules

1. Refund in full within **30 days** of delivery, no questions asked.
2. From day 31 to day 90 offer store credit of 80 %.
3. Over 500 EUR ask the support lead before you promise anything.
4. Fees of the payment provider are never refunded.

## Steps

- [x] Check the order: `orders show 88123`
- [x] Check that the account is not under dispute
- [ ] Note the outcome in the customer's memory

| Reason | Code | Needs approval |
| --- | --- | --- |
| Damaged on arrival | R10 | no |
| Changed mind | R30 | over 100 EUR |
"""


def fill(store: MemoryStore) -> None:
    """Write what agents and people of a support team would."""
    store.create("/memories/playbooks/refunds.md", REFUNDS, actor="user:ada")
    store.create("/memories/playbooks/shipping.md", "# Shipping\n\nTwo days in Europe.\n", actor="user:ada")
    for name in ("escalation", "tone", "warranty"):
        text = f"# {name.title()}\n\nSee [refunds](/memories/playbooks/refunds.md).\n"
        store.create(f"/memories/playbooks/{name}.md", text, actor="session:support-7f3a")
    index = "# Index\n\nAgents read this first.\n\n- `playbooks/` how we handle requests\n- `projects/` plans\n"
    store.create("/memories/index.md", index, actor="user:ada")
    steps = "".join(f"- [x] step {number}\n" for number in range(1, 30))
    store.create("/memories/projects/checkout/progress.md", f"# Checkout\n\n{steps}", actor="session:nightly-refactor")
    old, new = "**30 days** of delivery, no questions asked.", "**300 days** of delivery, as the vendor page says."
    page = "web:https://vendor.example/page"
    store.edit("/memories/playbooks/refunds.md", old, new, actor="session:web-research-12", source=page)
    old, new = "ask the support lead", "ask the lead on duty"
    store.edit("/memories/playbooks/refunds.md", old, new, actor="session:support-7f3a")
    store.change_settings({"review": ["session:web-*"]})
    line = "See [refunds](/memories/playbooks/refunds.md).\n"
    store.edit("/memories/playbooks/warranty.md", line, f"{line}Two years.\n", actor="session:web-research-14")
    store.create("/memories/scratch/vendor.md", "# Vendor page\n", actor="session:web-research-14")


def all_pages(store: MemoryStore) -> dict[str, str]:
    """Each page by name; those without a slash at the start are of the store."""
    memory = store.load("/memories/playbooks/refunds.md")[0]
    return {
        "stores": "/", "keys": "/keys", "health": "/health", "store": "tree/", "directory": "tree/playbooks",
        "past": "tree/?at=r6", "since": "since/?at=r6",
        "memory": "m/playbooks/refunds.md", "memory-past": "m/playbooks/refunds.md?at=r6",
        "raw": "m/playbooks/refunds.md?view=raw", "blame": "m/playbooks/refunds.md?view=blame",
        "history": "m/playbooks/refunds.md?view=history", "version": f"v/{memory.version_id}", "gone": "m/unknown.md",
        "difference": "by/session:web-research-12", "unified": "change/r8?view=unified", "activity": "activity",
        "search": "search?q=refund", "edit": "edit/playbooks/refunds.md", "new": "new",
        "undo": "undo?change=r8&mode=merge",
        "move": "move/playbooks/tone.md", "delete": "delete/playbooks/tone.md",
        "restore": "restore?path=/memories&to=r3",
        "review": f"review/{store.review.pending()[0].id}", "trust": "trust", "sensitive": "sensitive?scan=1",
        "redact": f"redact?version={memory.version_id}", "erase": f"erase?id={memory.id}", "erase-find": "erase",
        "settings": "settings",
        "audit": "audit?verify=1", "stats": "stats",
    }  # fmt: skip


def signed_in(browser: Browser, api: Api, key: str, scheme: Literal["light", "dark"], size: tuple[int, int]) -> Page:
    """A page of a signed-in person."""
    width, height = size
    view = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": height}, base_url=api.url)
    view.goto("/console/")
    view.fill("#key", key)
    view.click("button.main")
    return view


def draw_all(browser: Browser, api: Api, store: MemoryStore, key: str, folder: Path) -> Iterator[Path]:
    """Draw every page, in two looks."""
    folder.mkdir(parents=True, exist_ok=True)
    looks: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1440), ("dark", 390))
    for scheme, width in looks:
        view = signed_in(browser, api, key, scheme, (width, 900))
        for name, path in all_pages(store).items():
            view.goto(f"/console{path}" if path.startswith("/") else f"/console/s/{store.id}/{path}")
            file = folder / f"{name}-{width}-{scheme}.png"
            view.screenshot(path=file, full_page=True)
            yield file
        view.close()


def draw_documentation(browser: Browser, api: Api, store: MemoryStore, key: str) -> Iterator[Path]:
    """Draw the six pictures of docs/server.md."""
    target = ROOT / "docs" / "console"
    target.mkdir(exist_ok=True)
    pages = dict(PICTURES, review=("light", f"review/{store.review.pending()[0].id}"))
    for name, (scheme, path) in pages.items():
        view = signed_in(browser, api, key, "dark" if scheme == "dark" else "light", (1200, 720))
        view.goto(f"/console/s/{store.id}/{path}")
        view.screenshot(path=target / f"{name}.png")
        yield target / f"{name}.png"
        view.close()


def main() -> None:
    """Write the pictures, and print the name of each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--all", type=Path, metavar="FOLDER", help="draw every page into this folder instead")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as directory, retentive.open(f"sqlite:///{directory}/m.db") as opened:
        store = opened.store("support-eu")
        fill(store)
        with serving(opened, more=lambda server: console(server).routes()) as api, sync_playwright() as playwright:
            key = api.place.keys.create("ada", scopes=("admin",), principal="user:ada").text
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            if chosen.all:
                store.change_settings({"audit": True, "trust": {"session:web-*": "unconfirmed"}})
            drawn = draw_all(browser, api, store, key, chosen.all) if chosen.all else None
            for file in drawn or draw_documentation(browser, api, store, key):
                print(file)
            browser.close()


if __name__ == "__main__":
    main()
