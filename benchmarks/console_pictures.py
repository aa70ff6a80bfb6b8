"""Pictures of the web console for docs/console.md, made from a small store in a real browser.

Needs Chromium: python benchmarks/console_pictures.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import retentive
from retentive import MemoryStore
from retentive.console.web import console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from support.http_api import serving  # noqa: E402 - after the path

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


def main() -> None:
    """Write the pictures."""
    target = ROOT / "docs" / "console"
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, retentive.open(f"sqlite:///{directory}/m.db") as opened:
        store = opened.store("support-eu")
        fill(store)
        pages = dict(PICTURES, review=("light", f"review/{store.review.pending()[0].id}"))
        with serving(opened, more=lambda server: console(server).routes()) as api, sync_playwright() as playwright:
            key = api.place.keys.create("ada", scopes=("admin",), principal="user:ada").text
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name, (scheme, path) in pages.items():
                view = browser.new_page(
                    color_scheme="dark" if scheme == "dark" else "light", viewport={"width": 1200, "height": 720}
                )
                view.goto(f"{api.url}/console/")
                view.fill("#key", key)
                view.click("button.main")
                view.goto(f"{api.url}/console/s/{store.id}/{path}")
                view.screenshot(path=target / f"{name}.png")
                view.close()
            browser.close()


if __name__ == "__main__":
    main()
