"""Laws of commands: every input gets a reply, errors name the problem and change nothing, and nothing raises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import retentive
from retentive import MemoryStore
from retentive.errors import Refused
from retentive.values.commands import parse
from support.model import Model
from support.shape import ALIASES, NAMES, OPTIONAL, REQUIRED, Expected, Fields, InvalidCommand, read_shape
from support.strategies import command_named, commands, invalid_commands, wild

FILES = {"/memories/a": "a\nb\na\n", "/memories/d/b": "b", "/memories/d/e/é": "", "/memories/.github/x": "x\n"}


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    """Store with a few memories. Rejected commands do not change it, so all examples share it."""
    with retentive.open("sqlite://") as opened:
        store = opened.store()
        for path, text in FILES.items():
            store.execute({"command": "create", "path": path, "file_text": text})
        yield store


def state(store: MemoryStore) -> tuple[object, ...]:
    """Return the state that a rejected command must not change."""
    return (
        list(store.memories()),
        store.usage(),
        store._core.read(lambda found: found.state.revision),
        list(store.versions(limit=1)),
    )


def shape_refusal(given_input: object) -> Expected | None:
    try:
        read_shape(given_input)
    except InvalidCommand as wrong:
        return wrong.expected
    return None


@given(given_input=wild | invalid_commands(list(FILES)))
@example(given_input={"command": "view", "path": "/memories/a", "view_range": [1, 10**950]})
@example(given_input={"command": "insert", "path": "/memories/a", "insert_line": 10**950, "insert_text": ""})
@example(given_input={"command": "create", "path": "/memories/n", "file_text": "a\0b"})
@example(given_input={"command": "create", "path": "/memories/n", "file_text": "\ud800"})
@example(given_input={"command": "insert", "path": "/memories/a", "insert_line": True, "insert_text": ""})
@example(given_input={"command": "view", "path": "/memories", "view_range": [1]})
def test_a_malformed_command_gets_a_reply_that_names_the_field(store: MemoryStore, given_input: object) -> None:
    """The input can have any type, depth and size.

    The reply is `Error: ` with the name of the field, and nothing changes.
    """
    expected = shape_refusal(given_input)
    if expected is not None:
        before = state(store)
        reply = store.execute(given_input)
        assert expected.fits(reply.text, is_error=reply.is_error), (expected, reply)
        assert state(store) == before
        assert len(reply.text) < 5_000


@given(command=commands(list(FILES)))
def test_a_rejected_command_changes_nothing(store: MemoryStore, command: Fields) -> None:
    """Memories, usage, revision and history stay the same."""
    expected = Model(tree=dict(FILES)).execute(command)
    if expected.is_error:
        before = state(store)
        reply = store.execute(command)
        assert expected.fits(reply.text, is_error=True), (expected, reply)
        assert state(store) == before


def _equal(one: Fields, other: Fields) -> bool:
    """Return whether two raw commands are equivalent."""
    results: list[object] = []
    for command in (one, other):
        try:
            results.append(parse(command))
        except Refused as refusal:
            results.append((refusal.key, {key: str(value) for key, value in refusal.values.items()}))
    return results[0] == results[1]


@given(
    st.sampled_from(NAMES).flatmap(lambda name: command_named(name, list(FILES))), wild, st.text(min_size=8, max_size=9)
)
def test_unknown_fields_are_ignored_and_null_is_absent(command: Fields, junk: object, name: str) -> None:
    """An unknown field, or null in an optional field, does not change the parsed command."""
    fields = {*REQUIRED[str(command["command"])], *OPTIONAL.get(str(command["command"]), ())}
    unknown = {} if name in {*fields, *ALIASES.values(), "command"} else {name: junk}
    nulls = {field: None for field in OPTIONAL.get(str(command["command"]), ()) if field not in command}
    assert _equal(command, command | unknown | nulls)


@given(st.sampled_from(sorted(ALIASES)), st.data())
def test_the_name_takes_precedence_over_its_alias(alias_of: tuple[str, str], data: st.DataObject) -> None:
    """The alias works alone. It is ignored if the name has a value, and used if the name is null."""
    name, field = alias_of
    alias = ALIASES[alias_of]
    command = data.draw(command_named(name, list(FILES)))
    value = command.pop(field) if field in command else command.pop(alias)
    if alias in command:
        return  # insert and create have a field `path` too
    proper, other = command | {field: value}, command | {alias: value}
    junk = data.draw(wild)
    assert _equal(proper, other)
    assert _equal(proper, proper | {alias: junk})
    assert _equal(proper, other | {field: None})


@given(commands(list(FILES)))
def test_a_parsed_command_replies_like_its_raw_form(command: Fields) -> None:
    """`execute` accepts raw and parsed commands, and gives the same reply to both."""
    with retentive.open("sqlite://") as one, retentive.open("sqlite://") as two:
        for path, text in FILES.items():
            for opened in (one, two):
                opened.store().execute({"command": "create", "path": path, "file_text": text})
        try:
            parsed = parse(command)
        except Refused:
            return
        assert one.store().execute(parsed) == two.store().execute(command)
