"""Secrets in memories of ADK: each form is removed, and every document can be read."""

from __future__ import annotations

import asyncio
from typing import Any

from google.adk.events.event import Event
from google.genai import types

import retentive
from retentive.integrations.adk import AdkMemoryService
from support.secret_forms import remains, texts


def test_each_form_is_removed_from_memories_of_adk() -> None:
    async def all_forms() -> list[str]:
        service = AdkMemoryService(retentive.open("sqlite://"), limit=10_000)
        left = []
        for number, (name, text, value) in enumerate(texts()):
            user: dict[str, Any] = {"app_name": "app", "user_id": f"u{number}"}
            content = types.Content(role="user", parts=[types.Part(text=f"kettle {text}")])
            event = Event(id="e", author="user", timestamp=1_800_000_000.5, content=content)
            await service.add_events_to_memory(**user, events=[event])
            found = await service.search_memory(**user, query="kettle")
            assert len(found.memories) == 1
            if remains(value, found.model_dump_json()) or remains(value, repr(found)):
                left.append(name)
        return left

    assert asyncio.run(all_forms()) == []
