"""The memory as an ordinary function tool, for models other than Claude and clients other than the SDK.

tool = function_tool(store)
client.chat.completions.create(..., tools=[{"type": "function", "function": tool.definition}])
reply = tool.reply(call.function.arguments)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retentive.agent.memory import check_executes
from retentive.agent.prompts import memory_protocol
from retentive.errors import InvalidInput
from retentive.integrations.function_tool import DESCRIPTION, INPUT_SCHEMA, NAME, Executes
from retentive.storage.contract import Actor, as_actor
from retentive.values.replies import Reply


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """The six commands as one function: its definition for a request, and what runs its calls. Threads may share it."""

    memory: Executes
    actor: Actor | None
    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool

    @property
    def definition(self) -> dict[str, Any]:
        """`name`, `description`, `parameters` and, for a strict one, `strict`: the form most clients take."""
        given = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {**given, "strict": True} if self.strict else given

    def reply(self, arguments: Mapping[str, Any] | str) -> Reply:
        """The reply to a call, with `is_error`. Never raises for what a model sent, be it JSON or not."""
        return self.memory.execute(_given(arguments), actor=self.actor)

    def call(self, arguments: Mapping[str, Any] | str) -> str:
        """The text of `reply`, for clients that have no place for an error mark; errors say that they are."""
        return self.reply(arguments).text


def function_tool(
    memory: Executes,
    *,
    actor: Actor | str | None = None,
    name: str = NAME,
    protocol: bool = True,
    strict: bool = False,
) -> FunctionTool:
    """The memory as a function tool.

    With `protocol` the description tells the model what the API tells Claude: to look at its memory first, and to
    write down what must last. `strict` is for OpenAI's strict mode: every field is required, and null where a command
    does not take it. `actor` is recorded with changes. Raises `InvalidInput`.
    """
    check_executes(memory)
    if not name:
        raise InvalidInput("name must be what the model calls the tool")
    about = f"{DESCRIPTION}\n\n{memory_protocol()}" if protocol else DESCRIPTION
    return FunctionTool(memory, as_actor(actor), name, about, _parameters(strict=strict), strict)


def _parameters(*, strict: bool) -> dict[str, Any]:
    fields: dict[str, dict[str, Any]] = INPUT_SCHEMA["properties"]
    if strict:
        required = INPUT_SCHEMA["required"]
        fields = {name: field if name in required else _nullable(field) for name, field in fields.items()}
    schema = {**INPUT_SCHEMA, "properties": fields, "additionalProperties": False}
    return {**schema, "required": list(fields)} if strict else schema


def _nullable(field: Mapping[str, Any]) -> dict[str, Any]:
    return {**field, "type": [field["type"], "null"]}


def _given(arguments: Mapping[str, Any] | str) -> object:
    """The input of the command; text that is no JSON goes on as it is, and gets a reply that says so."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
