"""Pictures of the console for comparison with baselines: a store that is the same in each run, and the comparison.

Pictures are reduced, so that baselines are small and the edges of letters matter little. The browser itself reduces and
compares them, so no library for pictures is needed.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from retentive import MemoryStore
from retentive.store import core_of
from support.browser import Browser, Page

BASELINES = Path(__file__).resolve().parent.parent / "features" / "console" / "looks"
VERSION = BASELINES / "chromium.txt"
"""File with the main version of the browser that made the baselines."""
REDUCED = 4
"""Pixels of the screen for each pixel of a baseline, in both directions."""
LEVELS = 6
"""Difference of a colour, of 255 levels, up to which two pixels count as equal."""
MOST = 0.001
"""Part of the pixels that may differ. Letters once differed in 0.0002; the planted bugs change at least 0.002."""
MOST_OF_ANOTHER_VERSION = 0.02
"""The same if the browser has another main version than the one that made the baselines: it may draw letters anew."""
FONTS = ("DejaVu Sans", "DejaVu Sans Mono")
FIXED = """
:root { --mono: "DejaVu Sans Mono" !important; }
html { font-family: "DejaVu Sans" !important; }
.foot { visibility: hidden; }
"""
"""Style sheet for all pictures: fonts of every Debian with Chromium, and no id of the store."""
START = datetime(2020, 3, 2, 9, tzinfo=UTC)
PAGES = {
    "stores": "/",
    "directory": "tree/",
    "past": "tree/?at=r6",
    "memory": "m/playbooks/refunds.md",
    "blame": "m/playbooks/refunds.md?view=blame",
    "difference": "change/r7",
    "undo": "undo?change=r7&mode=merge",
    "activity": "activity",
    "review": "review",
    "usage": "stats",
}
"""Pages by name. One with a slash at the start is a page of the location, others are of the store."""
_REDUCE = """
async ([picture, reduced]) => {
  const image = await createImageBitmap(await (await fetch(picture)).blob());
  const size = [Math.round(image.width / reduced), Math.round(image.height / reduced)];
  const small = await createImageBitmap(image, {resizeWidth: size[0], resizeHeight: size[1], resizeQuality: "high"});
  const canvas = new OffscreenCanvas(...size);
  canvas.getContext("2d").drawImage(small, 0, 0);
  const bytes = new Uint8Array(await (await canvas.convertToBlob({type: "image/webp", quality: 0.85})).arrayBuffer());
  return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""));
}
"""
_COMPARE = """
async ([pictures, levels]) => {
  const images = await Promise.all(pictures.map(async each => createImageBitmap(await (await fetch(each)).blob())));
  const [old, now] = images, width = Math.max(old.width, now.width), height = Math.max(old.height, now.height);
  const canvas = new OffscreenCanvas(3 * width, height), context = canvas.getContext("2d");
  context.drawImage(old, 0, 0);
  context.drawImage(now, width, 0);
  context.drawImage(now, 2 * width, 0);
  const [before, after, marked] = [0, 1, 2].map(at => context.getImageData(at * width, 0, width, height));
  let differing = 0;
  for (let at = 0; at < before.data.length; at += 4) {
    const most = Math.max(...[0, 1, 2, 3].map(each => Math.abs(before.data[at + each] - after.data[at + each])));
    if (most > levels) {
      differing += 1;
      marked.data.set([255, 0, 0, 255], at);
    } else {
      marked.data[at + 3] = 60;
    }
  }
  context.putImageData(marked, 2 * width, 0);
  const bytes = new Uint8Array(await (await canvas.convertToBlob({type: "image/png"})).arrayBuffer());
  return [differing / (width * height), btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""))];
}
"""
REFUNDS = """\
# Refunds

How we refund orders, for every support session. See [shipping](/memories/playbooks/shipping.md).

## Rules

1. Refund in full within **30 days** of delivery, no questions asked.
2. From day 31 to day 90 offer store credit of 80 %.
3. Over 500 EUR ask the support lead before you promise anything.

- [x] Check the order: `orders show 88123`
- [ ] Note the outcome in the customer's memory

| Reason | Code | Needs approval |
| --- | --- | --- |
| Damaged on arrival | R10 | no |
| Changed mind | R30 | over 100 EUR |
"""


class Clock:
    """A clock that advances by some hours with each change, and not otherwise."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now.timestamp()

    def advance(self) -> None:
        self.now += timedelta(hours=31)


def fill(store: MemoryStore, clock: Clock) -> None:
    """Write what agents and people would, in revisions 1 to 8 and a proposal."""
    texts = {
        "playbooks/refunds.md": ("user:ada", REFUNDS),
        "playbooks/shipping.md": ("user:ada", "# Shipping\n\nTwo days in Europe.\n"),
        "playbooks/tone.md": ("session:support-7f3a", "# Tone\n\nShort, kind, exact.\n"),
        "index.md": ("user:ada", "# Index\n\nAgents read this first.\n\n- `playbooks/` how we handle requests\n"),
        "projects/checkout/progress.md": ("session:nightly-refactor", "# Checkout\n\n- [x] step 1\n"),
    }
    for name, (actor, text) in texts.items():
        clock.advance()
        store.create(f"/memories/{name}", text, actor=actor)
    clock.advance()
    store.edit("/memories/playbooks/refunds.md", "80 %", "90 %", actor="user:ada")
    clock.advance()
    old, new = "**30 days** of delivery, no questions asked.", "**300 days** of delivery, as the vendor page says."
    store.edit("/memories/playbooks/refunds.md", old, new, actor="session:web-12", source="web:https://vendor.example")
    clock.advance()
    store.edit("/memories/playbooks/refunds.md", "the support lead", "the lead on duty", actor="session:support-7f3a")
    store.change_settings({"review": ["session:web-*"]})
    store.edit("/memories/playbooks/tone.md", "kind", "cheerful", actor="session:web-14")
    store.view("/memories/playbooks/refunds.md")
    core_of(store).accesses.flush()  # so that views of the pages change nothing


def main_version(browser: Browser) -> str:
    """Return the main version of the browser, such as 156."""
    return browser.version.split(".")[0]


def most_pixels(browser: Browser) -> float:
    """Return the part of the pixels in which a picture by this browser may differ from its baseline."""
    is_same = VERSION.read_text("ascii").strip() == main_version(browser)
    return MOST if is_same else MOST_OF_ANOTHER_VERSION


def has_fonts() -> bool:
    """Return whether the fonts of the pictures are installed."""
    listed = shutil.which("fc-list")
    if listed is None:
        return False
    found = subprocess.run([listed, ":", "family"], check=True, capture_output=True, text=True).stdout
    return {*FONTS} <= {name.strip() for line in found.splitlines() for name in line.split(",")}


@dataclass(frozen=True)
class Difference:
    """Part of the pixels that differ, and a picture: the baseline, the new picture, and the pixels in red."""

    part: float
    picture: bytes


class Drawing:
    """Reduces and compares pictures, in a page of its own."""

    def __init__(self, browser: Browser) -> None:
        self._page = browser.new_page()

    def close(self) -> None:
        self._page.close()

    def taken(self, page: Page) -> bytes:
        """Reduced picture of a whole page."""
        page.evaluate("document.fonts.ready")
        shot = page.screenshot(animations="disabled", caret="hide", full_page=True)
        found: str = self._page.evaluate(_REDUCE, [_url(shot, "png"), REDUCED])
        return base64.b64decode(found)

    def compared(self, old: bytes, now: bytes) -> Difference:
        """Difference of two reduced pictures."""
        part, picture = self._page.evaluate(_COMPARE, [[_url(old, "webp"), _url(now, "webp")], LEVELS])
        return Difference(part, base64.b64decode(picture))


def _url(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def shown(page: Page, store_id: str) -> Iterator[str]:
    """Open each page in turn, and yield its name."""
    for name, path in PAGES.items():
        opened(page, store_id, path)
        yield name


def opened(page: Page, store_id: str, path: str, style: str = FIXED) -> None:
    """Open one page, with a style sheet added."""
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"/console{path}" if path.startswith("/") else f"/console/s/{store_id}/{path}")
    page.add_style_tag(content=style)
