"""The table of keys: the pages and the documentation have the same one."""

from __future__ import annotations

import re
from pathlib import Path

from retentive import MemoryStore
from retentive.console.rendering import SHORTCUTS, static_file
from support.console import Person

ROOT = Path(__file__).resolve().parents[3]
KEYS = {key for keys, _ in SHORTCUTS for key in keys}


def test_the_documentation_has_the_table() -> None:
    rows = (f"| {' '.join(f'`{key}`' for key in keys)} | {meaning} |\n" for keys, meaning in SHORTCUTS)
    assert "| keys | |\n| --- | --- |\n" + "".join(rows) in (ROOT / "docs" / "server.md").read_text("utf-8")


def test_each_key_of_a_template_is_in_the_table_and_each_of_the_table_does_something() -> None:
    templates = "".join(each.read_text("utf-8") for each in (ROOT / "src/retentive/console/templates").glob("*.html"))
    script = static_file("console.js").decode()
    pressed = {each for each in re.findall(r'(?:data-|, )key="([^"]+)"', templates) if "{" not in each} | {"b", "h"}
    pressed |= set(re.findall(r'"(g \w)"[,)]', templates))
    moving = set(re.findall(r"^    (\w): \(\)", script, re.MULTILINE))
    assert moving == {"j", "k", "o", "x"}
    assert pressed | moving == KEYS


def test_links_to_older_and_newer(person: Person, store: MemoryStore, at: str) -> None:
    new, old = (each.id for each in store.versions("/memories/notes/a.md"))
    assert f"{at}/v/{old}" in person.get(f"{at}/m/notes/a.md").links
    assert f"{at}/v/{old}" in person.get(f"{at}/m/notes/a.md?view=blame").links
    assert f"{at}/v/{old}" in person.get(f"{at}/v/{new}").links
    assert f"{at}/v/{new}" in person.get(f"{at}/v/{old}").links
    assert {f"{at}/change/r1", f"{at}/change/r3"} <= set(person.get(f"{at}/change/r2").links)
    assert f"{at}/change/r2" in person.get(f"{at}/change/r1").links
    assert f"{at}/change/r4" not in person.get(f"{at}/change/r3").links
