"""Parts of the input in replies."""

from __future__ import annotations

import pytest

import retentive
from retentive import MemoryStore
from retentive.values.replies import echo
from support.commands import create, delete


def test_braces_in_values_are_plain_text(store: MemoryStore) -> None:
    reply = store.execute(create("/memories/{path}{0}{{", ""))
    assert reply.text == "File created successfully at: /memories/{path}{0}{{"


@pytest.mark.parametrize("length", [0, 1_999, 2_000, 2_001, 90_000])
def test_echoes_are_cut_after_2000_characters(length: int) -> None:
    text = "é" * length
    assert echo(text) == (text if length <= 2_000 else "é" * 2_000 + "…")


@pytest.mark.parametrize("length", [2_000, 2_001])
def test_old_str_and_accepted_paths_are_cut_in_replies(length: int) -> None:
    """A path with repeated slashes may be long although its canonical form is short."""
    with retentive.open("sqlite://") as opened:
        store = opened.store()
        store.execute(create("/memories/a", "x" * 3_000))
        old = "y" * length
        reply = store.execute({"command": "str_replace", "path": "/memories/a", "old_str": old})
        shown = old if length <= 2_000 else old[:2_000] + "…"
        expected = f"No replacement was performed, old_str `{shown}` did not appear verbatim in /memories/a."
        assert reply.text == expected
        many = store.execute({"command": "str_replace", "path": "/memories/a", "old_str": "x" * length})
        shown = "x" * 2_000 + ("" if length <= 2_000 else "…")
        assert many.text == (
            f"No replacement was performed. Multiple occurrences of old_str `{shown}` in lines: 1. "
            "Please ensure it is unique"
        )
        long_path = "/memories/" + "/" * (length - 11) + "b"
        gone = store.execute(delete(long_path))
        shown = long_path if length <= 2_000 else long_path[:2_000] + "…"
        assert gone.text == f"Error: The path {shown} does not exist"
