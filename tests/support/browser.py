"""A browser for tests of the console. Importing this skips the module without one, and in the quick profile."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TypeAlias

import pytest

from support.http_api import Api
from support.profiles import LONG, REQUIRED

if not LONG:
    pytest.skip("a browser takes minutes: RETENTIVE_PROFILE=long", allow_module_level=True)
CHROMIUM = shutil.which("chromium") or ""
AXE = Path(os.environ.get("RETENTIVE_AXE", ".cache/axe")) / "node_modules/axe-core/axe.min.js"
if not CHROMIUM and not REQUIRED:
    pytest.skip("chromium is not installed", allow_module_level=True)
from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402 - only with a browser

__all__ = [
    "AXE",
    "FAULTS",
    "LOOKS",
    "RULES",
    "WIDTHS",
    "Browser",
    "Looks",
    "Page",
    "browser",
    "expect",
    "next_proposal",
    "signed_in",
]

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
Looks: TypeAlias = tuple[str, int, bool]
LOOKS: list[Looks] = list(product(("light", "dark"), (1440, 390), (True, False)))
"""Colour scheme, width, and whether JavaScript is on."""
# Advice of Chromium: a form with a key has no name of a user. Its note about the header of the sign-out. And its note
# that a test filled in the key before Chromium moved the focus to that field.
HARMLESS = re.compile("Password forms should have|Clear-Site-Data header|Autofocus processing was blocked")


WIDTHS = (390, 820, 1280, 1440)
FAULTS = r"""
(() => {
  const found = [], width = document.documentElement.clientWidth, range = document.createRange();
  if (document.documentElement.scrollWidth > width) found.push("the page is wider than the window");
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const parent = node.parentElement;
    if (!parent.checkVisibility() || parent.closest(".hide, script, dialog, textarea, option")) continue;
    for (const match of node.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const rects = [...range.getClientRects()].filter((rect) => rect.width > 0);
      const lines = new Set(rects.map((rect) => Math.round(rect.top / 4)));
      if (lines.size > 1 && match[0].length < 24) found.push(`"${match[0]}" is cut in pieces`);
      const isOutside = rects.some((rect) => rect.right > width + 1);
      if (isOutside && !parent.closest(".scroll, .tabs, pre")) found.push(`"${match[0]}" is outside of the window`);
    }
  }
  for (const cell of document.querySelectorAll("td, th")) {
    range.selectNodeContents(cell);
    const lines = new Set([...range.getClientRects()].map((rect) => Math.round(rect.top / 4)));
    const box = cell.getBoundingClientRect();
    if (box.width && box.width < 60 && lines.size > 3) found.push(`the column of "${cell.textContent}" is squeezed`);
  }
  return [...new Set(found)];
})()
"""
"""Script that returns the faults of the layout of a page: what overflows, words in pieces, and squeezed columns."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for a module: while it runs, other tests could not run an event loop."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def signed_in(
    browser: Browser,
    api: Api,
    *,
    scheme: str = "light",
    width: int = 1440,
    js: bool = True,
    problems: list[str],
    bypass_csp: bool = False,
) -> Iterator[Page]:
    """A page of a person who has signed in with the form. `problems` gets what no page may do.

    With `bypass_csp`, a test may add a style sheet to pages.
    """
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": 900},
        java_script_enabled=js,
        bypass_csp=bypass_csp,
        base_url=api.url,
    )
    page = context.new_page()
    page.on("console", lambda message: problems.append(message.text) if not HARMLESS.search(message.text) else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda asked: None if asked.url.startswith(api.url) else problems.append(asked.url))
    page.goto("/console/")
    page.fill("#key", api.key)
    page.click("button.main")
    yield page
    context.close()


def next_proposal(page: Page, path: str, waiting: int) -> None:
    """Wait until a review shows the next proposal, and the number of those that wait.

    The number alone is not enough: the stream changes it in the old page too, before the answer to the decision.
    """
    expect(page.locator("main h2").filter(has_text=path)).to_be_visible()
    expect(page.locator(".meta").first).to_have_text(f"{waiting} waiting")
