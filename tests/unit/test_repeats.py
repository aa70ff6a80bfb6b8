"""A command that is repeated under its tool_use id gets its first reply again, byte for byte, and changes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

import retentive
from retentive import InvalidInput, MemoryStore
from retentive.engine.repeats import KEPT_S, KIND
from support.clock import Clock
from support.commands import create, delete, edit, insert, rename
from support.places import EVERYWHERE, LOCAL, opened, place_of

T = TypeVar("T")
A, B = "/memories/a.md", "/memories/b.md"
KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # concatenated here, so that no secret scanner reports this file


def call_id(name: object) -> str:
    """Return an id of the form that the Claude API uses."""
    return f"toolu_{str(name).encode().hex():0>24}"


def state(store: MemoryStore) -> object:
    """Return all memories, texts and versions of a store."""
    return [(memory, store.read(memory.path)) for memory in store.memories()], list(store.versions())


def notes(store: MemoryStore) -> list[str]:
    return [value for _, value in store._core.read(lambda found: list(found.records(KIND)))]


def test_commands_without_a_need_for_an_id_leave_no_record(store: MemoryStore) -> None:
    """Commands without an id, views, and malformed and refused commands leave no record. An empty id is no id."""
    assert store.execute(create(A)).is_error is False
    assert store.execute(create(A)).code == "already_exists"
    store.execute({"command": "view", "path": A}, tool_use_id=call_id(1))
    store.execute({"command": "crate"}, tool_use_id=call_id(2))
    store.execute(create(A), tool_use_id=call_id(3))
    store.execute(insert(0, path=A), tool_use_id="")
    assert notes(store) == []
    first = store.execute({"command": "view", "path": A}, tool_use_id=call_id(1)).text
    store.execute(insert(0, "y", A))
    assert store.execute({"command": "view", "path": A}, tool_use_id=call_id(1)).text != first


def test_the_same_id_with_another_input_is_a_new_command(store: MemoryStore) -> None:
    """The record of the new command replaces the first one."""
    store.execute(create(A, ""))
    for text in ("1", "2", "2", "1", "1"):
        store.execute(insert(0, text, A), tool_use_id=call_id("same"))
    assert store.read(A) == "1\n2\n1\n"
    assert len(notes(store)) == 1


@pytest.mark.parametrize(
    ("tool_use_id", "lines"),
    [
        ("toolu_01A09q90qw90lq917835lq9a", 1),
        ("toolu_bdrk_01A09q90qw90lq917835lq9a", 1),
        ("srvtoolu_01A09q90qw90lq917835lq9a", 1),
        ("mcptoolu_01A09q90qw90lq917835lq9a", 1),
        ("toolu_scripted_01A09q90qw90lq917835lq9a", 1),
        ("call_1", 2),
        ("toolu_1", 2),
    ],
)
def test_an_id_of_the_api_is_unique_without_the_actor(tool_use_id: str, lines: int, store: MemoryStore) -> None:
    """An agent that continues a conversation in a new process may be a new session. Other models number their calls."""
    store.execute(create(A, ""))
    for actor in ("session:before", "session:after"):
        assert not store.execute(insert(0, "x\n", A), tool_use_id=tool_use_id, actor=actor).is_error
    assert store.read(A) == lines * "x\n"


def test_equivalent_inputs_are_the_same_command(store: MemoryStore) -> None:
    """Inputs that differ only in unknown fields, aliases or order are equal.

    Differently written paths are not equal.
    """
    first = store.execute(create(A, ""), tool_use_id=call_id("t"))
    assert first == store.execute({"content": "", "command": "create", "path": A, "why": 7}, tool_use_id=call_id("t"))
    other = store.execute(create("/memories//a.md", ""), tool_use_id=call_id("t"))
    assert other.text == "Error: File /memories//a.md already exists"


def test_the_reply_to_a_command_without_effect_is_remembered(place: str) -> None:
    """The repeated command gets its first reply and does not overwrite later changes of other actors."""
    with retentive.open(place, create_overwrites=True) as memory:
        store = memory.store()
        store.execute(create(A, "same"))
        first = store.execute(create(A, "same"), tool_use_id=call_id("t"))
        shown = store.execute(edit("same", "same", A), tool_use_id=call_id("u"))
        store.execute(create(A, "later"))
        assert store.execute(create(A, "same"), tool_use_id=call_id("t")) == first
        assert store.execute(edit("same", "same", A), tool_use_id=call_id("u")) == shown
        assert store.read(A) == "later"


def test_a_repeated_snippet_shows_the_text_of_the_first_call(store: MemoryStore) -> None:
    """The snippet shows the text after the first call.

    After the version is redacted or pruned, the reply has no snippet.
    """
    store.execute(create(A, "a\nb\nc\n"))
    first = store.execute(edit("b", "B", A), tool_use_id=call_id("t"))
    assert first.text.endswith("     1\ta\n     2\tB\n     3\tc")
    version = store.versions()[0].id
    store.execute(edit("B", "secret", A))
    store.execute(rename(A, B))
    store.change_settings({"view_chars": 3})
    assert store.execute(edit("b", "B", A), tool_use_id=call_id("t")) == first
    store._core.backend.write(store.id, lambda tx: tx.redact([version], None))
    assert store.execute(edit("b", "B", A), tool_use_id=call_id("t")).text == "The memory file has been edited."
    store._core.backend.write(store.id, lambda tx: tx.prune([version]))
    assert store.execute(edit("b", "B", A), tool_use_id=call_id("t")).text == "The memory file has been edited."


def test_after_24_hours_a_repeated_command_is_a_new_command(place: str) -> None:
    """The clock of the store decides."""
    clock = Clock()
    with retentive.open(place, clock=clock) as memory:
        store = memory.store()
        store.execute(create(A, ""))
        store.execute(insert(0, path=A), tool_use_id=call_id("t"))
        clock.now += KEPT_S - 60
        store.execute(create(B), tool_use_id=call_id("of the next day"))  # removes what has expired, and no more
        store.execute(insert(0, path=A), tool_use_id=call_id("t"))
        assert store.read(A) == "x\n"
        clock.now += 60
        store.execute(insert(0, path=A), tool_use_id=call_id("t"))
        assert store.read(A) == "x\nx\n"
        store.execute(insert(0, "y", A), tool_use_id=call_id("u"))


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_expired_records_go_with_the_new_ones(backend: str, tmp_path: Path) -> None:
    """Short processes that record a few commands a day leave the records of two days, and no long process is needed."""
    clock = Clock()
    for day in range(8):
        with opened(backend, tmp_path, clock=clock) as memory:
            store = memory.store()
            for number in range(5):
                path = f"/memories/{day}/{number}.md"
                assert not store.execute(create(path), tool_use_id=call_id((day, number))).is_error
            assert len(notes(store)) <= 15
        clock.now += KEPT_S
    with opened(backend, tmp_path, clock=clock) as memory:
        for number in range(5):
            memory.store().execute(create(f"/memories/last/{number}"), tool_use_id=call_id(number))
        assert len(notes(memory.store())) <= 10


@pytest.mark.parametrize("backend", [*LOCAL, "postgresql", "mariadb"])
def test_concurrent_repetitions_are_executed_once(backend: str, tmp_path: Path) -> None:
    with opened(backend, tmp_path) as place, ThreadPoolExecutor(8) as threads:
        store = place.store()
        store.execute(create(A, ""))
        for number in range(10):
            gate = threading.Barrier(8)

            def send(command: dict[str, Any], name: str, gate: threading.Barrier = gate) -> tuple[str, str]:
                gate.wait(60)
                return name, store.execute(command, tool_use_id=name).text

            line, made = (
                (insert(0, f"{number}", A), call_id(f"i{number}")),
                (create(f"/memories/{number}", ""), call_id(f"c{number}")),
            )
            told = set(threads.map(send, *zip(*([line] * 4 + [made] * 4), strict=True)))
            assert len(told) == 2
        assert sorted(map(int, store.read(A).splitlines())) == list(range(10))


PROGRAM = """
import os, signal, sys, json
import retentive
retentive.open(sys.argv[1]).store().execute(json.loads(sys.argv[2]), tool_use_id=sys.argv[3])
os.kill(os.getpid(), signal.SIGKILL)  # the change is durable, and nobody has the reply
"""


def test_a_killed_process_can_get_the_reply_later(tmp_path: Path) -> None:
    """The first process is killed with SIGKILL between the commit and the reply. A second process gets the reply."""
    at, command = place_of("sqlite", tmp_path), edit("one", "two", A)
    with retentive.open(at) as memory:
        memory.store().execute(create(A, "one\n"))
    arguments = [sys.executable, "-c", PROGRAM, at, json.dumps(command), call_id("t")]
    assert subprocess.run(arguments, timeout=120, check=False).returncode == -signal.SIGKILL
    with retentive.open(at) as memory:
        reply = memory.store().execute(command, tool_use_id=call_id("t"))
        assert reply.text.endswith("(with line numbers):\n     1\ttwo")
        assert not reply.is_error
        assert len(list(memory.store().versions())) == 2


def test_no_record_contains_a_text_or_path(store: MemoryStore, tmp_path: Path) -> None:
    """No file contains the sensitive value, and no record contains a path or text of the command."""
    sent = [
        create(A, "unmistakable"),
        edit("unmistakable", f"{KEY} unmistakable", A),
        insert(0, KEY, A),
        rename(A, B),
        delete(B),
    ]
    for number, command in enumerate(sent):
        reply = store.execute(command, tool_use_id=f"{KEY} {number}", run="r")
        assert store.execute(command, tool_use_id=f"{KEY} {number}", run="r") == reply
    said = "".join(notes(store))
    assert len(notes(store)) == len(sent)
    assert "unmistakable" not in said
    assert "memories" not in said
    at_rest = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in at_rest


def test_an_actor_under_review_makes_one_proposal(store: MemoryStore) -> None:
    """A repeated command gets its first reply, including the snippet, while the proposal is pending."""
    store.execute(create(A))
    store.change_settings({"review": ["session:*"]})
    for command in (edit("two", "three", A), create(B, "x"), rename(A, "/memories/c.md"), delete("/memories/c.md")):
        name = call_id(json.dumps(command))
        first = store.execute(command, tool_use_id=name, actor="session:s")
        assert "awaits review by a person" in first.text
        waiting = store.review.pending()
        assert store.execute(command, tool_use_id=name, actor="session:s") == first
        assert store.review.pending() == waiting
    store.review.accept([each.id for each in store.review.pending()], actor="user:ann")
    before = state(store)
    again = store.execute(create(B, "x"), tool_use_id=call_id(json.dumps(create(B, "x"))), actor="session:s")
    note = "Note: This change awaits review by a person. Until then only you see it."
    assert again.text == f"File created successfully at: {B}\n{note}"
    assert state(store) == before


@pytest.mark.parametrize("given", [5, b"t", ["t"], {}, 0, False])
def test_an_id_of_another_type_is_refused(given: Any, store: MemoryStore) -> None:
    """The caller gets an error, because the model does not choose the id. Nothing is done."""
    for command in (create(A), {"command": "view", "path": "/memories"}):
        with pytest.raises(InvalidInput, match="a tool_use id must be a string"):
            store.execute(command, tool_use_id=given)
    with pytest.raises(InvalidInput, match="a tool_use id must be a string"):
        store.clear(tool_use_id=given)
    assert state(store) == ([], [])


RUN: dict[str, Any] = {"tool_use_id": "call_0", "run": "r", "actor": "session:s"}


def test_an_id_that_is_not_unique_is_no_repetition_without_a_run(store: MemoryStore) -> None:
    """llama.cpp, Kimi and Gemini use the ids `call_0`, `call_1`, ... in each turn. No change is swallowed."""
    for actor in (None, "user:ann"):
        path = f"/memories/{actor or 'nobody'}".replace(":", "-")
        assert not store.execute(create(path, ""), tool_use_id="call_0", actor=actor).is_error
        store.execute(delete(path), tool_use_id="call_1", actor=actor)
        store.execute(create(path, ""), tool_use_id="call_0", actor=actor)
        for _ in range(2):
            store.execute(insert(0, "heartbeat", path), tool_use_id="X", actor=actor)
        assert store.read(path) == "heartbeat\n" * 2
    assert notes(store) == []
    assert {each.provenance.tool_use_id for each in store.versions()} == {"call_0", "call_1", "X"}


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_in_a_run_any_id_repeats_while_the_outcome_stands(backend: str, tmp_path: Path) -> None:
    with opened(backend, tmp_path) as place:
        store = place.store()
        commands = [
            create(A, "one\n"),
            edit("one", "two", A),
            insert(0, "zero", A),
            rename(A, B),
            create("/memories/d/c.md", ""),
            rename("/memories/d", "/memories/e"),
            delete(B),
            delete("/memories/e"),
        ]
        for command in commands:
            first = store.execute(command, **RUN)
            assert not first.is_error
            before = state(store)
            assert store.execute(command, **RUN) == first
            assert state(store) == before
        store.execute(create(A, ""), **RUN)
        first = store.clear(**RUN)
        assert store.clear(**RUN) == first


@pytest.mark.parametrize("other", [{"run": "other"}, {"actor": "session:other"}, {"tool_use_id": "call_1"}])
def test_another_run_actor_or_id_is_no_repetition(other: dict[str, Any], store: MemoryStore) -> None:
    store.execute(create(A, ""))
    for options in (RUN, RUN | other):
        assert not store.execute(insert(0, "x", A), **options).is_error
    assert store.read(A) == "x\nx\n"


LATER = [
    (create(A, "x"), delete(A)),
    (insert(0, "x", A), insert(0, "y", A)),
    (insert(0, "x", A), rename(A, B)),
    (edit("one", "two", A), edit("two", "one", A)),
    (rename(A, B), rename(B, A)),
    (delete(A), create(A, "other")),
    (delete("/memories/d"), create("/memories/d/e.md", "other")),
    (rename("/memories/d", "/memories/f"), rename("/memories/f", "/memories/d")),
]


@pytest.mark.parametrize(("command", "later"), LATER)
def test_in_a_run_a_command_runs_again_once_its_outcome_no_longer_stands(
    command: dict[str, Any], later: dict[str, Any], store: MemoryStore
) -> None:
    """The id was used again after something else had happened. The change is judged anew, and not swallowed."""
    if command["command"] != "create":
        store.execute(create(A, "one\n"))
    store.execute(create("/memories/d/c.md", ""))
    assert not store.execute(command, **RUN).is_error
    assert not store.execute(later).is_error
    before = len(store.versions())
    reply = store.execute(command, **RUN)
    moved = "does not exist" in reply.text and later["command"] == "rename"
    assert moved or len(store.versions()) > before


def test_in_a_run_a_proposal_repeats_while_it_stands(store: MemoryStore) -> None:
    store.change_settings({"review": ["session:*"]})
    first = store.execute(create(A, "x"), **RUN)
    assert store.execute(create(A, "x"), **RUN) == first
    assert len(store.review.pending()) == 1
    store.execute(delete(A), actor="session:s")
    store.execute(create(A, "x"), **RUN)
    assert len(store.review.pending()) == 3


@pytest.mark.parametrize("options", [{"tool_use_id": call_id("t")}, RUN])
def test_a_refused_command_runs_again(options: dict[str, Any], store: MemoryStore) -> None:
    """The reason may be gone: what was refused changed nothing."""
    store.execute(create(A, "alpha\n"))
    assert store.execute(edit("beta", "gamma", A), **options).code == "no_match"
    store.execute(insert(1, "beta", A))
    assert not store.execute(edit("beta", "gamma", A), **options).is_error
    assert store.read(A) == "alpha\ngamma\n"


@pytest.mark.parametrize("given", [5, "", "x" * 256, "a\nb"])
def test_an_invalid_run_is_refused(given: Any, store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="a run must"):
        store.execute(create(A), tool_use_id="call_0", run=given)
    assert store.memories() == []
