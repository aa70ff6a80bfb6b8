"""Answers show what the request did, also if other clients change the memory before the answer is made."""

from __future__ import annotations

from typing import Any

import pytest

from retentive import MemoryStore
from retentive.store.by_id import ById
from support.http_api import Api

A = "/memories/a.md"


@pytest.mark.parametrize("change", ["edit", "rename", "delete"])
def test_a_create_that_others_change_at_once(
    api: Api, store: MemoryStore, at: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Id, hash and content are those of the version that the request made."""
    read, changes = (
        ById.get,
        {
            "edit": lambda: store.write(A, "theirs"),
            "rename": lambda: store.rename(A, "/memories/b.md"),
            "delete": lambda: store.delete(A),
        },
    )

    def late(self: ById, memory_id: str) -> Any:
        changes.pop(change, lambda: None)()
        return read(self, memory_id)

    monkeypatch.setattr(ById, "get", late)
    body = api.post(f"{at}/memories?view=full", {"path": "/a.md", "content": "ours"}).body
    first = store.versions()[-1]
    assert (body["path"], body["content"], body["memory_version_id"]) == ("/a.md", "ours", first.id)
    assert (body["content_sha256"], body["content_size_bytes"]) == (first.sha256, 4)
    assert change not in changes
