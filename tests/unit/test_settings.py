"""Settings: validation, storage and overrides by a process. Also path and actor patterns."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import InvalidInput
from retentive.errors import UnknownSchema
from retentive.values.settings import DEFAULTS, NAMES, Pins, Settings, describe, from_text

NUMBERS = ["view_chars", "list_rows", "max_memory_bytes", "max_memories", "max_store_bytes"]
OTHERS: dict[str, Any] = {
    "create_overwrites": True,
    "read_only": True,
    "sensitive": "reject",
    "sensitive_likely": "off",
    "sensitive_allow": ("us_ssn", "/memories/tests/**", f"value:{'0' * 32}:{'a' * 64}"),
    "sensitive_kinds": ("email", "-payment_card"),
    "read_only_paths": ("/memories/team/**",),
    "allow_write": {"session:*": ("/memories/notes/**", "/memories/a")},
    "review": {"session:*": "changes", "api_key:?": "all"},
    "proposals_expire_days": 7,
    "max_proposals": 7,
    "max_proposals_each": 7,
    "trust": {"session:*": "unconfirmed", "source:web:*": "quarantined", "user:ann": "trusted"},
    "quarantine": ("session:s1", "source:web:*"),
    "hide_unconfirmed": ("session:*",),
    "expire_after_days": 7,
    "expire_paths": {"/memories/scratch/**": 7},
    "keep_versions_days": 7,
    "keep_versions": 7,
    "audit": True,
    "search_languages": ("german", "english"),
} | dict.fromkeys(NUMBERS, 7)


def test_the_defaults_are_those_of_the_documentation() -> None:
    numbers = {name: getattr(DEFAULTS, name) for name in NUMBERS}
    assert numbers == {
        "view_chars": 16_000,
        "list_rows": 1_000,
        "max_memory_bytes": 102_400,
        "max_memories": 10_000,
        "max_store_bytes": 256 * 1024 * 1024,
    }
    assert DEFAULTS.to_text() is None
    assert [name for name, _, text in describe() if text] == list(NAMES) == list(Pins.__annotations__)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, 1.5, "5", None, True, float("nan"), 2**60])
def test_a_wrong_number_is_refused_before_anything_is_created(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=name):
        retentive.open(tmp_path / "memory", **{name: value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("create_overwrites", 1),
        ("sensitive", "maybe"),
        ("sensitive", None),
        ("sensitive_likely", "some"),
        ("sensitive_allow", "us_ssn"),
        ("sensitive_allow", ["hunter2!"]),
        ("sensitive_allow", ["/etc"]),
        ("sensitive_kinds", "payment_card"),
        ("sensitive_kinds", [7]),
        ("create_overwrites", None),
        ("read_only", "yes"),
        ("read_only_paths", "/memories/a"),
        ("read_only_paths", ["/etc"]),
        ("read_only_paths", ["/memoriesfoo"]),
        ("read_only_paths", ["/memories/a/"]),
        ("read_only_paths", ["/memories//a"]),
        ("read_only_paths", ["/memories/***"]),
        ("read_only_paths", [7]),
        ("allow_write", ["/memories"]),
        ("allow_write", {"session:*": "/memories"}),
        ("allow_write", {"": ["/memories"]}),
        ("allow_write", {7: ["/memories"]}),
        ("review", "session:*"),
        ("review", [""]),
        ("review", {"session:*": "some"}),
        ("max_proposals", -1),
        ("trust", ["session:*"]),
        ("trust", {"session:*": "some"}),
        ("trust", {"": "trusted"}),
        ("trust", {"source:": "trusted"}),
        ("quarantine", "session:s1"),
        ("quarantine", [1]),
        ("quarantine", ["x" * 2_011]),
        ("hide_unconfirmed", "session:*"),
        ("view_char", 7),
    ],
)
def test_invalid_settings_are_refused_with_the_reason(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"view_chars|must|contains an empty name"):
        DEFAULTS.changed({name: value})


def test_settings_survive_a_round_trip() -> None:
    """Only settings that differ from the defaults are stored, so that a later version can change a default."""
    settings = Settings(**OTHERS)
    assert set(OTHERS) == set(NAMES)
    assert from_text(settings.to_text()) == settings
    assert DEFAULTS.changed({"read_only": True}).to_text() == '{"read_only": true}'
    assert from_text(None) is DEFAULTS
    assert dataclasses.replace(settings, **{name: getattr(DEFAULTS, name) for name in NAMES}) == DEFAULTS


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"guard_of_tomorrow": true}', '{"view_chars": "many"}'])
def test_settings_of_a_newer_version_are_not_ignored(text: str) -> None:
    """An unknown setting of a newer version is an error, because it may be a guard."""
    with pytest.raises(UnknownSchema):
        from_text(text)


def test_settings_have_a_maximum_size() -> None:
    with pytest.raises(InvalidInput, match="65536 bytes"):
        DEFAULTS.changed({"read_only_paths": [f"/memories/{number:09}" for number in range(4_000)]}).to_text()
