"""Tools `search` and `fetch`, with the names and results that ChatGPT and other research clients expect.

Source: OpenAI, "Building MCP servers for ChatGPT": one text with JSON, and the same value as structured content.
"""

from __future__ import annotations

import json
from typing import Any

from retentive.mcp.answers import MAX_REPLY_CHARS, Arguments, ToolAnswer, required_text
from retentive.mcp.uris import uri_of
from retentive.search.results import Hit
from retentive.store import MemoryStore
from retentive.values.paths import ROOT

LIMIT = 10


def search(store: MemoryStore, given: Arguments, name: str) -> ToolAnswer:
    """The memories that answer a query, best first. `name` is that of the store in URIs."""
    found = store.search(required_text(given, "query", "search"), limit=LIMIT)
    return _json({"results": [_result(hit, name) for hit in found.hits]})


def _result(hit: Hit, name: str) -> dict[str, str]:
    return {"id": hit.memory_id, "title": hit.path.removeprefix(f"{ROOT}/"), "url": uri_of(name, hit.path)}


def fetch(store: MemoryStore, given: Arguments, name: str) -> ToolAnswer:
    """The text of a memory, given by its id."""
    memory, text = store.by_id.get(required_text(given, "id", "fetch"))
    found: dict[str, Any] = {
        "id": memory.id,
        "title": memory.path.removeprefix(f"{ROOT}/"),
        "text": text,
        "url": uri_of(name, memory.path),
        "metadata": {"version": memory.version_id, "updated_at": memory.updated_at.isoformat()},
    }
    room = MAX_REPLY_CHARS - len(json.dumps({**found, "text": ""})) - 200
    if len(_dumped(text)) > room:
        shown = text[:room]
        shown = shown[: room * room // max(room, len(_dumped(shown)))]  # escapes make a text longer
        found["text"] = shown
        found["metadata"]["truncated"] = f"{len(shown)} of {len(text)} characters; view {memory.path} to read the rest"
    return _json(found)


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json(value: dict[str, Any]) -> ToolAnswer:
    return ToolAnswer(_dumped(value), structured=value)
