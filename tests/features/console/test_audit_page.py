"""The audit page: pages of entries, and verifications."""

from __future__ import annotations

import re

from retentive import MemoryStore
from retentive.console.pages.administration import ROWS
from support.console import Person

NUMBER = r'<tr><td class="num">(\d+)</td>'


def test_the_audit_log_is_read_page_by_page(person: Person, store: MemoryStore, at: str) -> None:
    store.change_settings({"audit": True})
    for number in range(ROWS + 5):
        store.create(f"/memories/many/{number}.md", "x\n")
    first = person.get(f"{at}/audit")
    assert [int(found) for found in re.findall(NUMBER, first.body)] == list(range(ROWS + 6, 6, -1))
    second = person.get(next(link for link in first.links if "before=" in link))
    assert [int(found) for found in re.findall(NUMBER, second.body)] == list(range(6, 0, -1))
    assert not [link for link in second.links if "before=" in link]
    assert person.get(f"{at}/audit?before=x").status == 400


def test_a_verification_says_what_it_found(person: Person, store: MemoryStore, at: str) -> None:
    store.change_settings({"audit": True})
    page = person.get(f"{at}/audit?verify=1")
    assert "Sound: 1 entry" in page.text
    assert page.problems() == []
    head = re.search(r"1:[0-9a-f]{64}", page.text)
    assert head is not None
    assert "Sound: 1 entry" in person.get(f"{at}/audit?verify=1&expect={head[0]}").text
    other = person.get(f"{at}/audit?verify=1&expect=9:{'0' * 64}")
    assert "Not sound" in other.text
    assert other.problems() == []
