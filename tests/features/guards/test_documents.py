"""Secrets in documents: removed from each string of a JSON document, which stays readable, as from a plain memory."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

import retentive
from retentive import MemoryStore
from retentive.integrations.langgraph import LangGraphStore
from retentive.redaction.detector import Rule
from support.detection.draw import fill
from support.profiles import LONG
from support.secret_forms import remains, texts

TEXTS = list(texts())
PART = 1 if LONG else 4  # the quick profile takes a part of the texts in each shape
SHAPES: dict[str, Any] = {
    "plain": lambda text: text,
    "json": lambda text: json.dumps({"role": "user", "content": text}),
    "json, indented": lambda text: json.dumps([{"content": [{"type": "text", "text": text}]}], indent=2),
    "json lines": lambda text: f"{json.dumps({'first': 1})}\n{json.dumps({'content': text}, ensure_ascii=False)}\n",
    "name of a field": lambda text: json.dumps({text: 1, "other": 2}),
    "json in json": lambda text: json.dumps({"arguments": json.dumps({"command": text})}),
    "code": lambda text: f"run({json.dumps(text)})\n",
    "json in code": lambda text: f"body = {json.dumps(json.dumps({'command': text}))}\n",
    "codes of characters": lambda text: json.dumps({"t": text}).replace('\\"', "\\u0022").replace("&", "\\u0026"),
    "markdown": lambda text: f"# Log\n\n```json\n{json.dumps({'command': text}, indent=1)}\n```\n",
}


@pytest.fixture
def store() -> MemoryStore:
    return retentive.open("sqlite://", create_overwrites=True).store()


def saved(store: MemoryStore, text: str) -> str:
    reply = store.execute({"command": "create", "path": "/memories/a.json", "file_text": text})
    assert not reply.is_error, reply.text
    return store.read("/memories/a.json")


def kept_in(saved: str, shape: str) -> None:
    """Fail unless a document of this shape can be read, with the documents in it."""
    if shape == "json lines":
        assert len([json.loads(line) for line in saved.splitlines()]) == 2
    elif shape == "json in json":
        assert set(json.loads(json.loads(saved)["arguments"])) == {"command"}
    elif shape == "json in code":
        assert set(json.loads(json.loads(saved.removeprefix("body = ")))) == {"command"}
    elif shape == "code":
        assert isinstance(json.loads(saved.removeprefix("run(").removesuffix(")\n")), str)
    elif shape == "markdown":
        assert set(json.loads(saved.partition("```json\n")[2].partition("\n```")[0])) == {"command"}
    elif shape != "plain":
        assert len(json.loads(saved)) >= 1


@pytest.mark.parametrize("shape", SHAPES)
def test_each_form_is_removed_and_the_document_can_be_read(store: MemoryStore, shape: str) -> None:
    """At least 40 forms: in quotes, in apostrophes, in a command, cut short."""
    assert len(TEXTS) >= 160
    left = []
    for name, text, value in TEXTS[[*SHAPES].index(shape) % PART :: PART]:
        found = saved(store, SHAPES[shape](text))
        kept_in(found, shape)
        if remains(value, found):
            left.append((name, found))
    assert left == []


def test_each_form_is_removed_from_items_of_langgraph(store: MemoryStore) -> None:
    graph = LangGraphStore(store)
    left = []
    for name, text, value in TEXTS[::PART]:
        graph.put(("a",), "k", {"text": text, "names": {text: 1}})
        item = graph.get(("a",), "k")
        assert item is not None
        if remains(value, str(item.value)):
            left.append(name)
    assert left == []


@pytest.mark.parametrize("mode", ["off", "flag", "redact", "reject"])
def test_each_mode_does_to_a_document_what_it_does_to_a_plain_memory(store: MemoryStore, mode: str) -> None:
    store.change_settings({"sensitive": mode})
    plain = 'ssh db "redis-cli -a tulQ83#4kMpw"'
    for text in (plain, json.dumps({"a": plain})):
        reply = store.execute({"command": "create", "path": "/memories/a.md", "file_text": text})
        notes = {
            "off": "",
            "flag": "Note: line 1 may hold a sensitive value (password). Remove it unless it belongs here.",
            "redact": "Note: 1 sensitive value(s) were removed before saving: password.",
        }
        if mode == "reject":
            assert "sensitive values: password" in reply.text
        else:
            assert reply.text.partition("\n")[2] == notes[mode]
            assert ("tulQ83#4kMpw" in store.read("/memories/a.md")) == (mode != "redact")


def test_names_of_fields_stay_different(store: MemoryStore) -> None:
    """Two names that are secrets do not become one: the value of the first would be lost."""
    rng = Random(5)
    tokens = [fill(rng, "ghp_<a:30><crc>") for _ in range(3)]
    found = json.loads(saved(store, json.dumps({tokens[0]: 1, "b": {tokens[1]: 2}, tokens[2]: 3})))
    assert [*found.values()] == [1, {"[REDACTED:github_token] 2": 2}, 3]
    again = json.loads(saved(store, json.dumps({**found, fill(rng, "ghp_<a:30><crc>"): 4})))
    assert [*again.values()] == [1, {"[REDACTED:github_token] 2": 2}, 3, 4]


def test_a_number_becomes_a_string(store: MemoryStore) -> None:
    text = saved(store, '{"card": 4539148803436467, "count": 12, "at": 1800000000.5}')
    assert json.loads(text) == {"card": "[REDACTED:payment_card]", "count": 12, "at": 1800000000.5}


def test_everything_else_in_a_document_is_kept(store: MemoryStore) -> None:
    """Spaces, escapes and the order of fields."""
    text = '{ "b":"caf\\u00e9 \\"x\\"",\n\t"a":[1.50, true, "\\ud83d\\ude00 sshpass -p \\"tulQ83#4kMpw\\" h\\n"] }\n'
    assert saved(store, text) == text.replace("tulQ83#4kMpw", "[REDACTED:password]")


def test_rules_of_an_application_see_each_string() -> None:
    """A pattern that would match quotes and brackets of the document cannot break it."""
    rule = Rule("ticket", r"^TICKET.*")
    wide = Rule("wide", r"secretly.*")
    store = retentive.open("sqlite://", rules=[rule, wide]).store()
    text = saved(store, '{"a": "TICKET 12", "b": ["say secretly this", "x"]}')
    assert json.loads(text) == {"a": "[REDACTED:ticket]", "b": ["say [REDACTED:wide]", "x"]}
