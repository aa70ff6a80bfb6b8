"""The memory tool as a plain function tool, for models other than Claude and clients other than the SDK.

tool = function_tool(store)
client.chat.completions.create(..., tools=[{"type": "function", "function": tool.definition}])
reply = tool.reply(call.function.arguments)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retentive.agent.memory import check_memory
from retentive.agent.prompts import memory_protocol
from retentive.errors import InvalidInput
from retentive.integrations.function_tool import DESCRIPTION, INPUT_SCHEMA, NAME, SupportsExecute
from retentive.integrations.named import named
from retentive.storage.contract import Actor, as_actor
from retentive.values.replies import Reply


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """Function tool with the six memory commands: a definition for requests and methods that run calls. Thread-safe."""

    memory: SupportsExecute
    actor: Actor | None
    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool

    @property
    def definition(self) -> dict[str, Any]:
        """Definition in the form most clients accept: `name`, `description`, `parameters` and, if set, `strict`."""
        fields = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {**fields, "strict": True} if self.strict else fields

    def reply(self, arguments: Mapping[str, Any] | str) -> Reply:
        """Run a call and return the reply with `is_error`. Invalid input gets an error reply, never an exception."""
        return named(self.memory, "function_tool").execute(_command(arguments), actor=self.actor)

    def call(self, arguments: Mapping[str, Any] | str) -> str:
        """Run a call and return only the text, for clients without an error flag. Error texts start with "Error"."""
        return self.reply(arguments).text


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
    it by itself only for Claude's own memory tool. `strict` is for OpenAI's strict mode: every field is required,
    and null where a command does not use it. `actor` is recorded with each change. Raises `InvalidInput`.
    """
    check_memory(memory)
    if not name:
        raise InvalidInput("name must not be empty: the model calls the tool by it")
    description = f"{DESCRIPTION}\n\n{memory_protocol()}" if protocol else DESCRIPTION
    return FunctionTool(memory, as_actor(actor), name, description, _parameters(strict=strict), strict)


def _parameters(*, strict: bool) -> dict[str, Any]:
    fields: dict[str, dict[str, Any]] = INPUT_SCHEMA["properties"]
    if strict:
        required = INPUT_SCHEMA["required"]
        fields = {name: field if name in required else _nullable(field) for name, field in fields.items()}
    schema = {**INPUT_SCHEMA, "properties": fields, "additionalProperties": False}
    return {**schema, "required": list(fields)} if strict else schema


def _nullable(field: Mapping[str, Any]) -> dict[str, Any]:
    return {**field, "type": [field["type"], "null"]}


def _command(arguments: Mapping[str, Any] | str) -> object:
    """Parse the arguments. Text that is not valid JSON is returned unchanged and gets an error reply."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
