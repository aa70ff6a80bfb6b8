"""Name, description and schema of the function tool."""

from __future__ import annotations

from retentive.integrations.schemas import MEMORY as NAME
from retentive.integrations.schemas import MEMORY_DESCRIPTION as DESCRIPTION
from retentive.integrations.schemas import MEMORY_SCHEMA as INPUT_SCHEMA
from retentive.values.commands import _COMMANDS


def test_the_schema_matches_the_parser() -> None:
    fields = {spec.name for _, specs in _COMMANDS.values() for spec in specs}
    assert set(INPUT_SCHEMA["properties"]) == {"command"} | fields
    assert INPUT_SCHEMA["properties"]["command"]["enum"] == list(_COMMANDS)
    assert INPUT_SCHEMA["required"] == ["command"]


def test_the_description_lists_each_command_with_its_fields() -> None:
    for name, (_, specs) in _COMMANDS.items():
        assert f"- {name} ({', '.join(spec.name for spec in specs)}): " in DESCRIPTION


def test_the_name_is_that_of_the_built_in_tool() -> None:
    assert NAME == "memory"
