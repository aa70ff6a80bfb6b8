"""The memory tool as a function tool, for models other than Claude and for clients other than the SDK.

    tool = function_tool(store)
    response = client.responses.create(..., tools=[{"type": "function", **tool.definition}])
    reply = tool.reply(call.arguments, call_id=call.call_id, run=response.id)

Send `reply.text` to the model as the result of the call. Claude does not need this definition, because it has a
built-in memory tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from retentive.errors import InvalidInput
from retentive.integrations.memory import MemoryLocation, open_memory
from retentive.integrations.schemas import MEMORY, MEMORY_DESCRIPTION, MEMORY_SCHEMA, PROTOCOL
from retentive.mounts import MemoryTree
from retentive.storage.contract import Actor, as_actor
from retentive.values.provenance import origin_of
from retentive.values.replies import Reply


@dataclass(frozen=True, slots=True, repr=False)
class FunctionTool:
    """Function tool: a definition for requests, and methods that run calls. Thread-safe."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[..., Reply]
    strict: bool = False

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name}>"

    @property
    def definition(self) -> dict[str, Any]:
        """Definition that most clients accept: `name`, `description`, `parameters` and, if set, `strict`."""
        fields = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {**fields, "strict": True} if self.strict else fields

    def reply(
        self, arguments: Mapping[str, Any] | str | None, *, call_id: str | None = None, run: str | None = None
    ) -> Reply:
        """Run a call and return the reply, which has a flag `is_error`.

        Invalid input gets an error reply, never an exception. If a call is repeated with the same `call_id` in the same
        `run`, such as the id of the model's response, its change is made only once.
        """
        return self.run(request_of(arguments), tool_use_id=call_id, run=run)

    def call(self, arguments: Mapping[str, Any] | str | None) -> str:
        """Run a call and return only the text, for clients without an error flag. Error texts start with "Error"."""
        return self.reply(arguments).text


def request_of(arguments: Mapping[str, Any] | str | None) -> object:
    """Return the input of a call. Input given as JSON text is parsed; text that is not JSON is returned unchanged."""
    if not isinstance(arguments, str):
        return arguments
    try:
        request: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return request


def function_tool(
    memory: MemoryLocation | MemoryTree,
    *,
    store: str | None = None,
    actor: Actor | str | None = None,
    source: str | None = None,
    session: str | None = None,
    name: str = MEMORY,
    protocol: bool = True,
    strict: bool = False,
) -> FunctionTool:
    """Create a function tool for a memory. Raises `InvalidInput`.

    `memory` is a `MemoryStore`, `Mounts`, or a location (a directory, a URL or an opened location). For a location,
    `store` selects a memory store by its key or id. A location that this function opens stays open until the process
    ends.

    With `protocol`, the description of the tool includes the memory protocol. This text tells the model to view its
    memory first and to record its progress. The API adds this text itself, but only for Claude's built-in memory tool.
    `strict` is for OpenAI's strict mode, in which every field is required: a field that a command does not use is null.

    `actor`, `source` and `session` are recorded with each change.
    """
    if not name:
        raise InvalidInput("`name` must not be empty; the model calls the tool by this name")
    schema = {**MEMORY_SCHEMA, "additionalProperties": False}
    if strict:
        fields = MEMORY_SCHEMA["properties"]
        required = MEMORY_SCHEMA["required"]
        schema["properties"] = {name: fields[name] if name in required else _or_null(**fields[name]) for name in fields}
        schema["required"] = list(fields)
    description = f"{MEMORY_DESCRIPTION}\n\n{PROTOCOL}" if protocol else MEMORY_DESCRIPTION
    call = {"actor": as_actor(actor), **origin_of(source, session)}
    found, _ = open_memory(memory, store)
    return FunctionTool(name, description, schema, partial(found.through("function_tool").execute, **call), strict)


def _or_null(*, description: str, **field: Any) -> dict[str, Any]:
    """Return the schema of a field that may be null. A list of types is rejected by google-genai."""
    return {"anyOf": [field, {"type": "null"}], "description": description}
