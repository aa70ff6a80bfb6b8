"""The benchmark of the value of a memory, in its smallest size, and its policy, which knows only what is visible."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retentive.testing.scripted_claude import Prompt
from retentive.testing.scripted_claude.messages import Message

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
SIZE = ["--tasks", "1", "--documents", "8", "--sessions", "2", "--tokens", "800", "--window", "4800"]
PLACEHOLDER = "[cleared]"
FACT = "The release code of module ibis-1 is 0123abcd."
QUESTION = "What is the release code of module ibis-1? It is in one of the documents 1 to 1. Reply with the code only."


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = ("memory_value", "memory_policy", "memory_tasks")
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in {*names, "figures", "agent_cost"} - before:
        sys.modules.pop(name, None)


def prompt(*messages: tuple[str, dict[str, Any]], memory: bool) -> Prompt:
    tools = ({"name": "read_document"}, *([{"name": "memory"}] if memory else []))
    found = tuple(Message(role, (block,)) for role, block in messages)
    return Prompt(found, None, tools, 0, placeholder=PLACEHOLDER)


def use(name: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "assistant", {"type": "tool_use", "id": f"{name}{given}", "name": name, "input": given}


def result(of: tuple[str, dict[str, Any]], text: str) -> tuple[str, dict[str, Any]]:
    return "user", {"type": "tool_result", "tool_use_id": of[1]["id"], "content": text}


def said(text: str) -> tuple[str, dict[str, Any]]:
    return "user", {"type": "text", "text": text}


@pytest.mark.long
def test_each_variant_is_scored(modules: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    """With a memory, every answer is right, although no session fits into the window. Without one, a fact that was
    only told is lost, and documents are read again.
    """
    modules.memory_value.main([*SIZE, "--json"])
    records = {record["variant"]: record for record in json.loads(capsys.readouterr().out)["records"]}
    assert list(records) == list(modules.memory_value.VARIANTS)
    for variant, record in records.items():
        remembers = variant.startswith("memory")
        assert record["questions"] == 7
        assert (record["right"] == 7) == remembers
        assert record["requests"] > 0
        assert record["cost"] > 0
        assert record["given_up"] == 0
    assert records["memory, editing"]["repeats"] == 0
    assert records["no memory, editing"]["repeats"] > 0


@pytest.mark.parametrize(
    ("shown", "answer"), [(f"Document 1\n\n{FACT}", "0123abcd"), (PLACEHOLDER, {"number": 1})], ids=["shown", "cleared"]
)
def test_a_cleared_result_is_unknown_to_the_policy(modules: SimpleNamespace, shown: str, answer: object) -> None:
    """The policy answers from a visible result, and reads the document again if the result was cleared."""
    read = use("read_document", {"number": 1})
    turn = modules.memory_policy.next_turn(prompt(read, result(read, shown), said(QUESTION), memory=False))
    assert getattr(turn, "input", turn) == answer


def test_a_told_fact_of_another_conversation_is_unknown(modules: SimpleNamespace) -> None:
    asked = said("What is the door code of room 1? I told you in an earlier session. Reply with the code only.")
    assert modules.memory_policy.next_turn(prompt(asked, memory=False)) == "unknown"


def test_the_policy_reads_its_notes_by_a_tool_call(modules: SimpleNamespace) -> None:
    """It views the directory, then the notes, and answers only from the result of that call."""
    turn = modules.memory_policy.next_turn
    root, notes = (use("memory", {"command": "view", "path": path}) for path in ("/memories", "/memories/notes.md"))
    assert turn(prompt(said(QUESTION), memory=True)).input == root[1]["input"]
    listed = (said(QUESTION), root, result(root, "12B\t/memories/notes.md"))
    assert turn(prompt(*listed, memory=True)).input == notes[1]["input"]
    viewed = (*listed, notes, result(notes, f"1\tDocument 1: {FACT}"))
    assert turn(prompt(*viewed, memory=True)) == "0123abcd"


def test_a_live_run_without_a_key_is_refused(
    modules: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(SystemExit, match="2"):
        modules.memory_value.main(["--live"])
    assert "--live asks a real model and needs ANTHROPIC_API_KEY" in capsys.readouterr().err
