"""Content blocks that a script gives as they are, streamed and not."""

from __future__ import annotations

from typing import Any

import pytest

from retentive.testing.scripted_claude import Raw, scripted_claude

from .requests import ask

RAW: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tea"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {
        "type": "text",
        "text": "Tea is a drink.",
        "citations": [{"type": "char_location", "cited_text": "tea", "document_index": 0}],
    },
    {"type": "compaction", "content": "We drank tea.", "encrypted_content": "abc"},
]


@pytest.mark.parametrize("way", ["plain", "streamed"])
def test_a_raw_block_is_sent_as_it_is(way: str) -> None:
    with scripted_claude(lambda _prompt: [Raw(block) for block in RAW]) as server:
        assert [block.to_dict() for block in ask(server, way).content] == RAW
