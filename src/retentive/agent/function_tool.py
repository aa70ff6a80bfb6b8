"""The memory tool as a plain function tool, for models other than Claude and clients other than the SDK.

tool = function_tool(store)
client.chat.completions.create(..., tools=[{"type": "function", "function": tool.definition}])
reply = tool.reply(call.function.arguments)
"""

from __future__ import annotations

from functools import partial
from typing import Any

from retentive.agent.prompts import memory_protocol
from retentive.agent.request import check_memory
from retentive.errors import InvalidInput
from retentive.integrations.function_tool import DESCRIPTION, INPUT_SCHEMA, NAME, FunctionTool, SupportsExecute
from retentive.integrations.named import named
from retentive.storage.contract import Actor, as_actor


def function_tool(
    memory: SupportsExecute,
    *,
    actor: Actor | str | None = None,
    name: str = NAME,
    protocol: bool = True,
    strict: bool = False,
) -> FunctionTool:
    """Create a function tool for a memory.

    `protocol` adds the memory protocol to the description: view the memory first, and record progress. The API adds
    this protocol only for Claude's own memory tool. `strict` is for OpenAI's strict mode: every field is required, and
    a field that a command does not use is null. `actor` is recorded with each change. Raises `InvalidInput`.
    """
    check_memory(memory)
    if not name:
        raise InvalidInput("name must not be empty: the model calls the tool by its name")
    description = f"{DESCRIPTION}\n\n{memory_protocol()}" if protocol else DESCRIPTION
    execute = partial(named(memory, "function_tool").execute, actor=as_actor(actor))
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
