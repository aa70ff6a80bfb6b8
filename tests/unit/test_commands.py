"""Parsing of tool input: the accepted forms, and the replies to invalid input."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retentive.errors import Refused
from retentive.values.commands import Command, Create, Delete, Insert, Rename, StrReplace, View, parse
from retentive.values.paths import MemoryPath
from retentive.values.replies import REPLIES

A, B = MemoryPath.parse("/memories/a"), MemoryPath.parse("/memories/b")


def refusal(given: object) -> str:
    with pytest.raises(Refused) as caught:
        parse(given)
    reply = REPLIES.error(caught.value.key, caught.value.values)
    assert reply.is_error
    return reply.text


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({"command": "view", "path": "/memories/a"}, View(A)),
        ({"command": "view", "path": "/memories/a", "view_range": None}, View(A)),
        ({"command": "view", "path": "/memories/a", "view_range": [1, 2]}, View(A, (1, 2))),
        ({"command": "view", "path": "/memories/a", "view_range": (1, -1)}, View(A, (1, -1))),
        ({"command": "view", "path": "/memories/a", "view_range": "[1, 10]"}, View(A, (1, 10))),
        ({"command": "view", "path": "/memories/a", "view_range": " [1,10] "}, View(A, (1, 10))),
        ({"command": "view", "path": "/memories/a", "view_range": ["1", "-1"]}, View(A, (1, -1))),
        ({"command": "view", "path": "/memories/a", "view_range": '["1", 2]'}, View(A, (1, 2))),
        ({"command": "create", "path": "/memories/a", "file_text": ""}, Create(A, "")),
        ({"command": "create", "path": "/memories/a", "content": "x"}, Create(A, "x")),
        ({"command": "create", "path": "/memories/a", "content": "x", "file_text": "y"}, Create(A, "y")),
        ({"command": "create", "path": "/memories/a", "content": "x", "file_text": None}, Create(A, "x")),
        ({"command": "create", "path": "/memories/a", "content": 5, "file_text": "y"}, Create(A, "y")),
        ({"command": "str_replace", "path": "/memories/a", "old_str": "x"}, StrReplace(A, "x", "")),
        ({"command": "str_replace", "path": "/memories/a", "old_str": "", "new_str": None}, StrReplace(A, "", "")),
        ({"command": "str_replace", "path": "/memories/a", "old_str": "x", "new_str": "y"}, StrReplace(A, "x", "y")),
        ({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"}, Insert(A, 0, "x")),
        ({"command": "insert", "path": "/memories/a", "insert_line": "12", "insert_text": "x"}, Insert(A, 12, "x")),
        ({"command": "insert", "path": "/memories/a", "insert_line": "-1", "new_str": "x"}, Insert(A, -1, "x")),
        (
            {"command": "insert", "path": "/memories/a", "insert_line": "9" * 18, "new_str": ""},
            Insert(A, 10**18 - 1, ""),
        ),
        ({"command": "insert", "path": "/memories/a", "insert_line": 10**40, "new_str": ""}, Insert(A, 10**40, "")),
        (
            {"command": "insert", "path": "/memories/a", "insert_line": 0, "new_str": "x", "insert_text": "y"},
            Insert(A, 0, "y"),
        ),
        ({"command": "delete", "path": "/memories/a", "recursive": True}, Delete(A)),
        ({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}, Rename(A, B)),
        ({"command": "rename", "path": "/memories/a", "new_path": "/memories/b"}, Rename(A, B)),
        ({"command": "rename", "path": "/x", "old_path": "/memories/a", "new_path": "/memories/b"}, Rename(A, B)),
        ({"command": "view", "path": "/memories/a", 5: 6, None: None}, View(A)),
    ],
)
def test_commands_as_models_send_them(given: dict[Any, object], command: Command) -> None:
    assert parse(given) == command


@pytest.mark.parametrize(
    "value",
    [
        "", " 1", "1 ", "1\n", "+1", "1.0", "0x1", "1_0", "--1", "-", "١", "１", "1" * 19, "one", "[1]", True, 1.5,
        float("nan"), float("inf"), -float("inf"),
    ],
)  # fmt: skip
def test_integers_are_integers_or_plain_ascii_digits(value: object) -> None:
    reply = refusal({"command": "insert", "path": "/memories/a", "insert_line": value, "insert_text": "x"})
    assert "`insert_line`" in reply
    for pair in ([value, 2], [1, value]):
        assert "`view_range`" in refusal({"command": "view", "path": "/memories/a", "view_range": pair})


@pytest.mark.parametrize(
    "value",
    [
        [], [1], [1, 2, 3], [None, 2], [1, None], [[1], 2], [1.5, 2], [True, 2], ["a", "b"], {"start": 1, "end": 2},
        5, "", "1", "1, 2", "[1]", "[1, 2, 3]", "[1, 2", "[1.5, 2]", "[true, 2]", "null", "{}", '"[1, 2]"',
        "[1, 1e400]", "[NaN, 2]",
        "[" * 50_000, b"[1, 2]",
    ],
    ids=range(26),
)  # fmt: skip
@pytest.mark.parametrize("path", ["/memories", "/memories/a"])
def test_a_malformed_range_is_named_for_directories_too(path: str, value: object) -> None:
    reply = refusal({"command": "view", "path": path, "view_range": value})
    assert reply.startswith("Error: ")
    assert "`view_range`" in reply
    assert "two integers" in reply


@pytest.mark.parametrize(("sent", "meant"), [(3.0, 3), (-0.0, 0), (-1.0, -1), (1e20, 10**20), ("3", 3)])
def test_a_float_without_a_fraction_is_an_integer(sent: object, meant: int) -> None:
    """Some models send every number as a float."""
    assert parse({"command": "insert", "path": "/memories/a", "insert_line": sent, "insert_text": ""}) == parse(
        {"command": "insert", "path": "/memories/a", "insert_line": meant, "insert_text": ""}
    )
    for given in ([sent, 2], [1, sent], json.dumps([sent, 1.0])):
        expected = [meant, 1] if isinstance(given, str) else [meant if each is sent else each for each in given]
        command = parse({"command": "view", "path": "/memories/a", "view_range": given})
        assert isinstance(command, View)
        assert list(command.view_range or ()) == expected
        assert all(type(number) is int for number in command.view_range or ())


def test_the_shape_is_checked_before_the_paths_and_the_old_path_before_the_new() -> None:
    assert "`file_text`" in refusal({"command": "create", "path": "/etc/passwd"})
    assert "`view_range`" in refusal({"command": "view", "path": "/etc/passwd", "view_range": "x"})
    both = refusal({"command": "rename", "old_path": "/one", "new_path": "/two"})
    assert both == "Error: Path must start with /memories, got: /one"


@pytest.mark.parametrize("path", ["/memories/a/", "/memories/a//", "/memories//a/b/"])
def test_create_refuses_a_trailing_slash_below_the_root(path: str) -> None:
    assert refusal({"command": "create", "path": path, "file_text": "x"}).startswith(f"Error: Invalid path {path}: ")
