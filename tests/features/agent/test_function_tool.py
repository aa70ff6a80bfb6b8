"""`function_tool`: its schema is valid, and every command can be called through it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai.types import Schema
from jsonschema import Draft202012Validator

from retentive import InvalidInput, MemoryStore, Reply
from retentive.agent import function_tool
from retentive.values.replies import REPLIES

PATH = "/memories/a.md"
COMMANDS = ["view", "create", "str_replace", "insert", "delete", "rename"]
CALLS: list[tuple[dict[str, Any], str]] = [
    ({"command": "create", "path": PATH, "file_text": "one\n"}, f"File created successfully at: {PATH}"),
    ({"command": "insert", "path": PATH, "insert_line": 1, "insert_text": "two"}, f"The file {PATH} has been edited."),
    (
        {"command": "view", "path": PATH, "view_range": [2, 2]},
        f"Here's the content of {PATH} with line numbers:\n     2\ttwo",
    ),
    (
        {"command": "str_replace", "path": PATH, "old_str": "two", "new_str": "2"},
        f"{REPLIES.edited_snippet}\n     1\tone\n     2\t2",
    ),
    (
        {"command": "rename", "old_path": PATH, "new_path": "/memories/b.md"},
        f"Successfully renamed {PATH} to /memories/b.md",
    ),
    ({"command": "delete", "path": "/memories/b.md"}, "Successfully deleted /memories/b.md"),
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("as_text", [False, True])
def test_every_command_runs(strict: bool, as_text: bool, store: MemoryStore) -> None:
    """Input can be an object or JSON. Strict mode sends null for unused fields. The schema accepts all of these."""
    tool = function_tool(store, actor="user:ann", strict=strict)
    schema = Draft202012Validator(dict(tool.parameters))
    names = tool.parameters["properties"]
    for call, expected in CALLS:
        given = {name: call.get(name) for name in names} if strict else call
        schema.validate(given)
        assert tool.reply(json.dumps(given) if as_text else given) == Reply(expected)
    assert {str(version.actor) for version in store.versions()} == {"user:ann"}
    assert {call["command"] for call, _ in CALLS} == set(COMMANDS)


@pytest.mark.parametrize("number", ["1.0", "1", '"1"'])
def test_a_whole_number_may_be_a_float(number: str, store: MemoryStore) -> None:
    """Some models send every number so. The schema accepts it as JSON Schema does; a fraction is refused."""
    tool = function_tool(store)
    store.create(PATH, "one\n")
    call = f'{{"command": "insert", "path": "{PATH}", "insert_line": {number}, "insert_text": "two"}}'
    assert tool.reply(call) == Reply(f"The file {PATH} has been edited.")
    assert tool.reply(call.replace(number, "1.5")).code == "invalid_input"
    assert Draft202012Validator(dict(tool.parameters)).is_valid(json.loads(call)) == (number != '"1"')


@pytest.mark.parametrize("strict", [False, True])
def test_the_definition_is_a_valid_schema(strict: bool, store: MemoryStore) -> None:
    """With `strict`, the schema also follows the rules of strict mode."""
    tool = function_tool(store, strict=strict)
    definition = json.loads(json.dumps(tool.definition))
    parameters = definition["parameters"]
    Draft202012Validator.check_schema(parameters)
    assert set(definition) == {"name", "description", "parameters"} | ({"strict"} if strict else set())
    assert definition["name"] == "memory"
    assert parameters["type"] == "object"
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["command"]["enum"] == COMMANDS
    assert parameters["required"] == (list(parameters["properties"]) if strict else ["command"])
    assert all(field["description"] for field in parameters["properties"].values())


@pytest.mark.parametrize("strict", [False, True])
def test_the_schema_is_one_for_gemini(strict: bool, store: MemoryStore) -> None:
    """Its SDK has a type of its own for schemas, which is narrower than JSON Schema."""
    tool = function_tool(store, strict=strict)
    found = Schema.model_validate(dict(tool.parameters))
    assert found.properties is not None
    assert list(found.properties) == list(tool.parameters["properties"])
    assert found.required == tool.parameters["required"]
    dumped = Schema.model_validate(json.loads(found.model_dump_json(exclude_none=True)))
    assert dumped == found


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("", "invalid_input"),
        ("{'command': 'view'}", "invalid_input"),
        ("[1, 2]", "invalid_input"),
        ('"view"', "invalid_input"),
        ("[" * 100_000, "invalid_input"),
        ("{}", "invalid_input"),
        ('{"command": "fly"}', "invalid_input"),
        ('{"command": "view", "path": "/etc/passwd"}', "invalid_path"),
        ('{"command": "view", "path": "/memories/none"}', "not_found"),
    ],
)
def test_errors_are_returned_as_text(arguments: str, code: str, store: MemoryStore) -> None:
    tool = function_tool(store)
    reply = tool.reply(arguments)
    assert (reply.is_error, reply.code) == (True, code)
    assert tool.call(arguments) == reply.text
    assert len(reply.text) < 2_500


def test_an_object_without_execute_is_rejected(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="`memory` must be a location"):
        function_tool(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="`name` must not be empty"):
        function_tool(store, name="")
