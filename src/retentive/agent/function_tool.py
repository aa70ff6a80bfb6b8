"""The memory tool as a plain function tool, for models other than Claude and clients other than the SDK.

tool = function_tool(store)
client.chat.completions.create(..., tools=[{"type": "function", "function": tool.definition}])
reply = tool.reply(call.function.arguments)
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
    """Create a function tool for a memory.

    `memory` is a memory store, mounts, another object with `execute`, or a location (opened or not). `store` is the key
    or id of a memory store in the location. If this function opens the location, it is closed when the process ends.
    `protocol` adds the memory protocol to the description: view the memory first, and record progress. The API adds
    this protocol only for Claude's own memory tool. `strict` is for OpenAI's strict mode: every field is required, and
    a field that a command does not use is null. `actor`, `source` and `session` are recorded with each change. Raises
    `InvalidInput`.
    """
    if not name:
        raise InvalidInput("name must not be empty: the model calls the tool by its name")
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
            name: field if name in required else {**field, "type": [field["type"], "null"]}
            for name, field in fields.items()
        }
    schema = {**INPUT_SCHEMA, "properties": fields, "additionalProperties": False}
    return {**schema, "required": list(fields)} if strict else schema
