"""The SDK's client over the routes of stores, memories and versions, with strict validation of every answer."""

from __future__ import annotations

import anthropic
import pytest

from support.http_api import Api


def test_the_sdk_manages_stores_and_memories(api: Api) -> None:
    with anthropic.Anthropic(api_key=api.key, base_url=api.url, _strict_response_validation=True) as client:
        stores = client.beta.memory_stores
        store = stores.create(name="Team", description="What we know", metadata={"a": "1"})
        assert stores.update(store.id, metadata={"a": None, "b": "2"}).metadata == {"b": "2"}
        made = stores.memories.create(store.id, path="/x/a.md", content="one\r\n", view="full")
        assert (made.path, made.content, made.content_size_bytes) == ("/x/a.md", "one\r\n", 5)
        with pytest.raises(anthropic.ConflictError) as taken:
            stores.memories.create(store.id, path="/x", content="")
        body = taken.value.body
        assert isinstance(body, dict)
        assert body["error"]["conflicting_memory_id"] == made.id
        assert body["error"]["conflicting_path"] == "/x/a.md"
        wrong = {"type": "content_sha256", "content_sha256": "0" * 64}
        with pytest.raises(anthropic.ConflictError) as differs:
            stores.memories.update(made.id, memory_store_id=store.id, content="two", precondition=wrong)  # type: ignore[arg-type]
        assert differs.value.type == "memory_precondition_failed_error" or differs.value.error_code is not None
        moved = stores.memories.update(made.id, memory_store_id=store.id, content="two", path="/y.md", view="full")
        assert (moved.id, moved.path, moved.content) == (made.id, "/y.md", "two")
        assert [each.path for each in stores.memories.list(store.id)] == ["/y.md"]
        assert stores.memories.retrieve(made.id, memory_store_id=store.id).content == "two"
        stores.memories.delete(made.id, memory_store_id=store.id)
        operations = [each.operation for each in stores.memory_versions.list(store.id, limit=1)]
        assert operations == ["deleted", "modified", "created"]
        assert stores.archive(store.id).archived_at is not None
        assert store.id not in [each.id for each in stores.list()]
        assert stores.delete(store.id).type == "memory_store_deleted"
        with pytest.raises(anthropic.NotFoundError):
            stores.retrieve(store.id)
