"""The settings page: a form with groups, a preview of what a change would do, and then the change."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from retentive import MemoryStore
from support.console import Person, Seen
from support.http_api import Api


def preview(person: Person, at: str, **changes: Any) -> Seen:
    page = person.get(f"{at}/settings")
    return person.post(f"{at}/settings", {**fields_of(page), **changes, "step": "preview"})


def fields_of(page: Seen) -> dict[str, Any]:
    """Fields of the form. A list has several fields with one name."""
    found = dict(page.form("/settings"))
    return {name: value for name, value in found.items() if name not in {"key", "step", "remove"}}


def save(person: Person, page: Seen, key: str, **changes: Any) -> Seen:
    return person.post(page.url.partition("?")[0], {**fields_of(page), **changes, "step": "save", "key": key})


def test_each_setting_is_in_one_group(person: Person, store: MemoryStore, at: str) -> None:
    names = re.findall(r'<span class="sub mono">([a-z_]+)</span>', person.get(f"{at}/settings").body)
    assert sorted(names) == sorted(each.name for each in fields(store.settings()))


def test_a_change_is_previewed_and_then_saved(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    before, size = store.settings(), {"max_memory_bytes": "2 MiB"}
    page = preview(person, at, max_memories="1", audit="on", **size)
    assert page.problems() == []
    assert "Max memories max_memories 10,000 1" in page.text
    assert "Max memory max_memory_bytes 100 KiB 2 MiB" in page.text
    assert "Audit audit off on" in page.text
    assert "The store has 2 memories, more than the limit" in page.text
    assert store.settings() == before
    assert save(person, page, "wrong").status == 403
    assert save(person, page, api.key).status == 200
    found = store.settings()
    assert (found.max_memories, found.max_memory_bytes, found.audit) == (1, 2 << 20, True)
    again = preview(person, at, max_memories="", audit="")
    save(person, again, api.key, audit="")
    assert (store.settings().max_memories, store.settings().audit) == (10_000, False)


def test_lists_and_maps_have_rows_to_add_and_to_remove(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    page, before = person.get(f"{at}/settings"), store.settings()
    given = {
        **fields_of(page),
        "review": ["session:a*", "", "session:b"],
        "review.value": ["changes", "all", "all"],
        "trust": ["session:*", ""],
        "trust.value": ["unconfirmed", "trusted"],
        "allow_write": "session:*",
        "allow_write.value": "/memories/notes/** /memories/x.md",
        "expire_paths": "/memories/scratch/**",
        "expire_paths.value": "7",
    }
    shown = person.post(f"{at}/settings", {**given, "remove": "review.0"})
    assert 'value="session:b"' in shown.body
    assert 'value="session:a*"' not in shown.body
    assert store.settings() == before
    seen = person.post(f"{at}/settings", {**given, "step": "preview"})
    assert "Review review none session:a*: changes; session:b: all" in seen.text
    assert "Trust trust none session:*: unconfirmed" in seen.text
    assert "The next sweep deletes 0 memories" in seen.text
    saved = {**given, "step": "save", "seen": seen.form("/settings")["seen"], "key": api.key}
    assert person.post(f"{at}/settings", saved).status == 200
    found = store.settings()
    assert found.review == {"session:a*": "changes", "session:b": "all"}
    assert found.trust == {"session:*": "unconfirmed"}
    assert found.allow_write == {"session:*": ("/memories/notes/**", "/memories/x.md")}
    assert found.expire_paths == {"/memories/scratch/**": 7}


@pytest.mark.parametrize(
    "wrong",
    [{"max_memories": "five"}, {"max_memories": "-1"}, {"review": "x"}, {"search_languages": "klingon"},
     {"expire_paths": "/memories/x", "expire_paths.value": "soon"}],
)  # fmt: skip
def test_a_wrong_value_is_named_and_kept_in_the_form(
    person: Person, store: MemoryStore, at: str, wrong: dict[str, str]
) -> None:
    before, page = store.settings(), preview(person, at, **wrong)
    name, value = next(iter(wrong.items()))
    assert (page.status, f"Nothing was saved {name}" in page.text or "Nothing was saved the setting" in page.text) == (
        400,
        True,
    )
    assert f'value="{value}"' in page.body
    assert store.settings() == before


def test_what_was_not_previewed_is_not_saved(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    """Neither an entry after the preview, nor after another person changed the settings."""
    page = preview(person, at, max_memories="5")
    late = save(person, page, api.key, max_memories="6")
    assert (late.status, "Max memories max_memories 10,000 6" in late.text) == (409, True)
    store.change_settings({"list_rows": 7})
    assert save(person, late, api.key).status == 409
    assert store.settings().max_memories == 10_000


def test_a_reader_sees_values_and_no_form(api: Api, store: MemoryStore, at: str) -> None:
    reader = Person(api.with_key("read"))
    page = reader.get(f"{at}/settings")
    assert "Max memory max_memory_bytes 100 KiB maximum bytes of one memory; 0 = no limit Default: 100 KiB" in page.text
    assert not [action for _, action, _ in page.forms if "/settings" in action]
