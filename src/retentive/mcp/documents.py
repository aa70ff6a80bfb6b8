"""Tools `search` and `fetch`, in the form that ChatGPT and other research clients expect.

Each tool returns a JSON text, and the same value as structured content. Source: OpenAI, "Building MCP servers for
ChatGPT".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from retentive.mcp.answers import MAX_REPLY_CHARS, Arguments, ToolAnswer, required_text
from retentive.search.results import Hit
from retentive.store import MemoryStore
from retentive.values.paths import ROOT

LIMIT = 10
UrlOf: TypeAlias = Callable[[str, str], str]
"""Function that returns the URL of a memory. Its arguments are the path and the id of the memory."""


def search(store: MemoryStore, given: Arguments, url_of: UrlOf) -> ToolAnswer:
    """Return the memories that match the argument `query` of the call, best match first."""
    found = store.search(required_text(given, "query", "search"), limit=LIMIT)
    return _json({"results": [_result(hit, url_of) for hit in found.hits]})


def _result(hit: Hit, url_of: UrlOf) -> dict[str, str]:
    url = url_of(hit.path, hit.memory_id)
    return {"id": hit.memory_id, "title": hit.path.removeprefix(f"{ROOT}/"), "url": url}


def fetch(store: MemoryStore, given: Arguments, url_of: UrlOf) -> ToolAnswer:
    """Return the text of the memory whose id is the argument `id` of the call."""
    memory, text = store.by_id.get(required_text(given, "id", "fetch"))
    found: dict[str, Any] = {
        "id": memory.id,
        "title": memory.path.removeprefix(f"{ROOT}/"),
        "text": text,
        "url": url_of(memory.path, memory.id),
        "metadata": {"version": memory.version_id, "updated_at": memory.updated_at.isoformat()},
    }
    room = MAX_REPLY_CHARS - len(json.dumps({**found, "text": ""})) - 200
    if len(_dumped(text)) > room:
        shown = text[:room]
        shown = shown[: room * room // max(room, len(_dumped(shown)))]  # JSON escapes make a text longer
        found["text"] = shown
        found["metadata"]["truncated"] = f"{len(shown)} of {len(text)} characters; view {memory.path} to read the rest"
    return _json(found)


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json(value: dict[str, Any]) -> ToolAnswer:
    return ToolAnswer(_dumped(value), structured=value)
