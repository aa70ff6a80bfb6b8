"""The memory tool as a function tool, for models other than Claude and for clients other than the SDK.

    tool = function_tool(store)
    client.chat.completions.create(..., tools=[{"type": "function", "function": tool.definition}])
    reply = tool.reply(call.function.arguments)

Send `reply.text` to the model as the result of the call.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from retentive.agent.prompts import memory_protocol
from retentive.errors import InvalidInput
from retentive.integrations.function_tool import DESCRIPTION, INPUT_SCHEMA, NAME, FunctionTool
from retentive.integrations.memory import MemoryLocation, SupportsExecute, open_memory
from retentive.integrations.named import named
from retentive.storage.contract import Actor, as_actor
from retentive.values.provenance import origin_of


def function_tool(
    memory: MemoryLocation | SupportsExecute,
    *,
    store: str | None = None,
    actor: Actor | str | None = None,
    source: str | None = None,
    session: str | None = None,
    name: str = NAME,
    protocol: bool = True,
    strict: bool = False,
) -> FunctionTool:
    """Create a function tool for a memory. Raises `InvalidInput`.

    `memory` is a `MemoryStore`, `Mounts`, another object with a method `execute`, or a location (a directory, a URL or
    an opened location). For a location, `store` selects a memory store by its key or id. A location that this function
    opens is closed when the process ends.

    With `protocol`, the description of the tool includes the memory protocol. This text tells the model to view its
    memory first and to record its progress. The API adds this text itself, but only for Claude's built-in memory tool.
    `strict` is for OpenAI's strict mode, in which every field is required: a field that a command does not use is null.

    `actor`, `source` and `session` are recorded with each change.
    """
    if not name:
        raise InvalidInput("`name` must not be empty; the model calls the tool by this name")
    description = f"{DESCRIPTION}\n\n{memory_protocol()}" if protocol else DESCRIPTION
    call = {"actor": as_actor(actor), **origin_of(source, session)}
    found, _ = open_memory(memory, store)
    execute = partial(named(found, "function_tool").execute, **call)
    return FunctionTool(name, description, _parameters(strict=strict), execute, strict)


def _parameters(*, strict: bool) -> dict[str, Any]:
    fields: dict[str, dict[str, Any]] = INPUT_SCHEMA["properties"]
    if strict:
        required = INPUT_SCHEMA["required"]
        fields = {
            name: field if name in required else _or_null(**field)  # a list of types is rejected by google-genai
            for name, field in fields.items()
        }
    schema = {**INPUT_SCHEMA, "properties": fields, "additionalProperties": False}
    return {**schema, "required": list(fields)} if strict else schema


def _or_null(*, description: str, **field: Any) -> dict[str, Any]:
    return {"anyOf": [field, {"type": "null"}], "description": description}
