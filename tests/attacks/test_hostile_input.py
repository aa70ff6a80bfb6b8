"""Invalid input: deeply nested, huge or malformed.

Each input gets a helpful reply, and no command raises an exception.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.profiles import some

from .scene import Scene

DEPTH = 5_000
SIX = ("view", "create", "str_replace", "insert", "delete", "rename")
FIELDS: dict[str, dict[str, object]] = {
    "view": {"path": "/memories/a.txt", "view_range": [1, 1]},
    "create": {"path": "/memories/new.txt", "file_text": "text"},
    "str_replace": {"path": "/memories/a.txt", "old_str": "not there", "new_str": "x"},
    "insert": {"path": "/memories/a.txt", "insert_line": 99, "insert_text": "x"},
    "delete": {"path": "/memories/missing"},
    "rename": {"old_path": "/memories/missing", "new_path": "/memories/b.txt"},
}


def nested(build: Callable[[object], object]) -> object:
    value: object = "end"
    for _ in range(DEPTH):
        value = build(value)
    return value


class NotJson:
    """Object that JSON cannot represent. It must not appear in a reply."""

    def __repr__(self) -> str:
        raise AssertionError("shown")

    __str__ = __repr__


def values() -> dict[str, object]:
    return {
        "none": None,
        "true": True,
        "zero": 0,
        "minus": -1,
        "huge": 10**5_000,
        "large": 10**30,
        "float": 1.5,
        "nan": float("nan"),
        "infinity": float("inf"),
        "empty": "",
        "text": "text",
        "nul": "\0",
        "surrogate": "\ud800",
        "percent": "%s{}{0}{path}",
        "long": "x" * 3_000_000,
        "slashes": "/" * 1_000_000,
        "root_slashes": "/memories" + "/" * 1_000_000,
        "segments": "/memories" + "/x" * DEPTH,
        "accents": "/memories/" + "e" + "\u0301" * 500_000,
        "escapes": "/memories/" + "%25" * 300_000,
        "digits": "9" * 5_000,
        "arabic_digits": "١",
        "list": [],
        "list_of_one": [1],
        "list_of_three": [1, 2, 3],
        "list_of_huge": [10**5_000, 10**5_000],
        "list_of_odd": [NotJson(), NotJson()],
        "long_list": [0] * 1_000_000,
        "dict": {},
        "dict_of_odd": {"path": NotJson()},
        "bytes": b"/memories/a.txt",
        "set": {1, 2},
        "tuple": (1, 2),
        "odd": NotJson(),
        "class": NotJson,
        "path": Path("/memories/a.txt"),
        "deep_list": nested(lambda value: [value]),
        "deep_dict": nested(lambda value: {"path": value}),
        "deep_tuple": nested(lambda value: (value,)),
        "deep_pair": nested(lambda value: [1, value]),
        "deep_text": "[" * DEPTH + "1" + "]" * DEPTH,
        "open_text": "[" * 100_000,
        "deep_object_text": '{"a":' * DEPTH + "1" + "}" * DEPTH,
        "pair_of_deep_text": "[1, " + "[" * DEPTH + "]" * DEPTH + "]",
        "huge_number_text": f"[1, {'9' * 5_000}]",
        "nan_text": "[NaN, Infinity]",
        "cut_text": "[1, 2",
    }


VALUES = values()


@pytest.fixture
def scene(backend: str, tmp_path: Path) -> Scene:
    return Scene(tmp_path, backend)


def test_any_value_in_any_field(scene: Scene) -> None:
    """Any value can be sent as a field, as the command name or as the whole input.

    The length of every reply is limited.
    """
    with scene.calling() as call:
        call({"command": "create", "path": "/memories/a.txt", "file_text": "text"})
        for value in some(VALUES.values(), 3):
            assert call(value).startswith("Error: "), str(type(value))
            assert call({"command": value}).startswith("Error: Invalid `command` parameter")
            for name in SIX:
                for field in FIELDS[name]:
                    said = call({"command": name, **FIELDS[name], field: value})
                    assert len(said) < 6_500
                    assert "0x" not in said
        assert call({"command": "view", "path": "/memories/a.txt"}).startswith("Here's the content")
    scene.check_outside()


def test_a_malformed_field_is_named_with_the_expected_value(scene: Scene) -> None:
    wrong = ("true", "float", "list", "dict", "bytes", "set", "odd", "deep_list", "deep_dict", "deep_tuple", "nan")
    with scene.calling() as call:
        for name in SIX:
            for field in FIELDS[name]:
                for kind in wrong:
                    said = call({"command": name, **FIELDS[name], field: VALUES[kind]})
                    assert said.startswith(f"Error: Invalid `{field}` parameter: "), (name, field, kind, said)
                    assert " It should be " in said


@pytest.mark.parametrize("value", [[], "", 0, None, [{}], "view", b"{}", json.dumps({"command": "view"}), object()])
def test_input_other_than_an_object(scene: Scene, value: object) -> None:
    """The reply to input that is not an object lists the six commands."""
    with scene.calling("async") as call:
        said = call(value)
        assert said.startswith("Error: The input must be an object")
        assert ", ".join(SIX) in said


def test_text_of_every_kind_is_stored_unchanged(scene: Scene) -> None:
    """Markup, templates and control sequences are plain text."""
    texts = ["", "\n", "\r", "\x1b[2J\x07", "\u202e", "\ufeff", "{path}", "%s", "../..", "e\u0301", "\x85", "</reply>"]
    with scene.calling() as call, scene.opened() as store:
        for number, text in enumerate(texts if scene.backend != "memory" else []):
            path = f"/memories/{number}"
            call({"command": "create", "path": path, "file_text": text})
            assert store.read(path) == text
