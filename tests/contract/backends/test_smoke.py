"""One conversation that runs on every backend, bare and encrypted, also in the quick profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import create, delete, edit, insert, rename, view
from support.places import PLACES, SEALED, opened

NOTE, MOVED, TEXT = "/memories/d/note.md", "/memories/note.md", "one\ntwo\n"
COMMANDS: list[dict[str, object]] = [
    create(NOTE, TEXT),
    insert(1, "between", NOTE),
    edit("two", "three", NOTE),
    rename("/memories/d", "/memories/e"),
    rename("/memories/e/note.md", MOVED),
]


@pytest.mark.parametrize("backend", [*PLACES, *SEALED])
def test_commands_history_audit_and_search_work(backend: str, tmp_path: Path) -> None:
    """The conversation has all six commands, undo, restore, redaction, a repeated call and an audit check."""
    with opened(backend, tmp_path, audit=True) as place:
        store = place.store()
        for number, command in enumerate(COMMANDS):
            reply = store.execute(command, actor="session:s", tool_use_id=f"toolu_{number:020}")
            assert not reply.is_error, reply.text
            assert store.execute(command, actor="session:s", tool_use_id=f"toolu_{number:020}") == reply
        shown = store.execute(view(MOVED))
        assert shown.text.splitlines()[1:] == ["     1\tone", "     2\tbetween", "     3\tthree"]
        assert [found.path for found in store.search("between").hits] == [MOVED]
        versions = list(store.versions(path=MOVED))
        assert store.execute(delete("/memories")).is_error
        assert not store.execute(delete(MOVED)).is_error
        store.history.restore(MOVED, versions[0].id)
        assert store.read(MOVED) == "one\nbetween\nthree\n"
        found = store.audit.verify()
        assert (found.problem, found.unaudited) == (None, ())
