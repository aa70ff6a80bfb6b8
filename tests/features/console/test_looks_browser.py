"""Pictures of the main pages are those of the baselines, in light and dark, at 1440 and 390 pixels.

With RETENTIVE_LOOKS=renew (`make looks`), the pictures become the new baselines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

import retentive
from retentive.console.web import console
from support import looks
from support.browser import Browser, browser, signed_in
from support.http_api import Api, serving
from support.profiles import REQUIRED

__all__ = ["browser"]

if not looks.has_fonts() and not REQUIRED:
    pytest.skip(f"the fonts {' and '.join(looks.FONTS)} are not installed", allow_module_level=True)
RENEWS = os.environ.get("RETENTIVE_LOOKS") == "renew"
LOOKS = list(product(("light", "dark"), (1440, 390)))
MAX_BYTES = 300_000
"""Maximum total size of the baselines."""


@dataclass(frozen=True)
class Scene:
    """The served store, and what compares pictures of it."""

    api: Api
    store_id: str
    drawing: looks.Drawing


@pytest.fixture(scope="module")
def scene(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    clock = looks.Clock()
    url = f"sqlite:///{tmp_path_factory.mktemp('looks')}/m.db"
    drawing = looks.Drawing(browser)
    with (
        retentive.open(url, clock=clock) as opened,
        serving(opened, more=lambda server: console(server).routes()) as api,
    ):
        store = opened.store("support-eu")
        looks.fill(store, clock)
        key = api.place.keys.create("ada", scopes=("admin",), principal="user:ada").text
        yield Scene(Api(api.url, key, api.place), store.id, drawing)
    drawing.close()


def baseline(name: str, scheme: str, width: int) -> Path:
    return looks.BASELINES / f"{name}-{width}-{scheme}.webp"


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_the_pages_look_as_before(browser: Browser, scene: Scene, tmp_path: Path, scheme: str, width: int) -> None:
    """The picture of a difference has the baseline, the new picture, and in red what differs."""
    different = []
    if RENEWS:
        looks.BASELINES.mkdir(exist_ok=True)
        looks.VERSION.write_text(f"{looks.main_version(browser)}\n", "ascii")
    with signed_in(browser, scene.api, scheme=scheme, width=width, problems=[], bypass_csp=True) as page:
        for name in looks.shown(page, scene.store_id):
            now, kept = scene.drawing.taken(page), baseline(name, scheme, width)
            if RENEWS:
                kept.write_bytes(now)
            found = scene.drawing.compared(kept.read_bytes(), now)
            if found.part > looks.most_pixels(browser):
                file = tmp_path / f"{kept.stem}.png"
                file.write_bytes(found.picture)
                different.append(f"{kept.stem}: {found.part:.2%} of the pixels differ, see {file}")
    assert different == []


def test_each_picture_has_a_baseline_and_all_are_small() -> None:
    expected = {baseline(name, scheme, width) for name, (scheme, width) in product(looks.PAGES, LOOKS)}
    assert set(looks.BASELINES.iterdir()) == {*expected, looks.VERSION}
    assert sum(file.stat().st_size for file in expected) <= MAX_BYTES


BUGS = {
    "another colour of links": "a { color: #b3261e !important; }",
    "cards without borders and shadows": ".card { border-color: transparent !important; box-shadow: none !important; }",
    "rows that are two pixels higher": "td { padding-bottom: 8px !important; }",
    "a larger font": "body { font-size: 15px !important; }",
    "a heading that is not bold": "h1 { font-weight: 400 !important; }",
    "hidden tabs": ".tabs { display: none !important; }",
    "another background": "body { background: light-dark(#fff, #000) !important; }",
    "a column that moved": "aside { order: -1 !important; }",
    "an actor without its colour": ".who::before { background: #777 !important; }",
    "square corners of buttons": ".button { border-radius: 0 !important; border-width: 2px !important; }",
}
"""Style sheets with one bug each. The page of a memory shows all of them."""


@pytest.mark.skipif(RENEWS, reason="the baselines are being made")
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_a_bug_in_the_style_sheet_is_found(browser: Browser, scene: Scene, scheme: str, width: int) -> None:
    """Each of these bugs changes more of the picture than may differ, and the same page again does not."""
    missed = []
    with signed_in(browser, scene.api, scheme=scheme, width=width, problems=[], bypass_csp=True) as page:
        looks.opened(page, scene.store_id, looks.PAGES["memory"])
        kept = scene.drawing.taken(page)
        for bug, style in {"no bug": "", **BUGS}.items():
            looks.opened(page, scene.store_id, looks.PAGES["memory"], looks.FIXED + style)
            found = scene.drawing.compared(kept, scene.drawing.taken(page))
            if (found.part <= looks.MOST) != (bug == "no bug"):
                missed.append(bug)
    assert missed == []
