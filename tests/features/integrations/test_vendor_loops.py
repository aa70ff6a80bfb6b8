"""The documented loops for OpenAI and Gemini: the official SDKs against servers that play a script of the wire format.

A server refuses a request as the API would: a definition outside the rules, a call without its one result, or calls,
reasoning and thought signatures that differ from what the model sent.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from google import genai
from jsonschema import Draft202012Validator
from openai import OpenAI

from retentive import MemoryStore
from retentive.agent import function_tool
from support.listener import Answer, Received, listening
from support.pages import ROOT

from .conversations import ERRORS, STORY, A, B

QUESTION, KEY = "Was weißt du?", "none-needed"
Json = dict[str, Any]
Turns = Sequence[Sequence[Json]]


@dataclass
class Api:
    """Server that makes the calls of each turn, then says "Done.". `results` has what it got for each call.

    The ids of responses begin with `name`. Ids of calls are unique in one response only.
    """

    turns: Turns
    name: str = "r"
    sent: list[list[Json]] = field(default_factory=list)
    results: list[tuple[str, bool | None]] = field(default_factory=list)

    def __call__(self, received: Received) -> Answer:
        number = len(self.sent)
        try:
            self.check(received, json.loads(received.body))
        except AssertionError as error:
            return 400, json.dumps({"error": {"message": str(error), "code": 400}}).encode()
        items = self.answer(number, self.turns[number] if number < len(self.turns) else ())
        self.sent.append(items)
        return 200, json.dumps(self.response(f"{self.name}_{number}", items)).encode()

    def check(self, received: Received, body: Json) -> None:
        raise NotImplementedError

    def answer(self, number: int, turn: Sequence[Json]) -> list[Json]:
        raise NotImplementedError

    def response(self, name: str, items: list[Json]) -> Json:
        raise NotImplementedError


def check_definition(tool: Json, parameters: Json) -> None:
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", tool["name"])
    assert tool["description"]
    assert parameters["type"] == "object"
    Draft202012Validator.check_schema(parameters)


class OpenAIApi(Api):
    """`POST /v1/responses`. Two items are one call: reasoning, which the client must return, and the call."""

    def check(self, received: Received, body: Json) -> None:
        assert (received.path, received.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
        assert body.keys() == {"model", "input", "tools"}
        (tool,) = body["tools"]
        assert tool.keys() == {"type", "name", "description", "parameters", "strict"}
        assert (tool["type"], tool["strict"]) == ("function", True)
        check_definition(tool, tool["parameters"])
        assert tool["parameters"]["additionalProperties"] is False
        assert tool["parameters"]["required"] == list(tool["parameters"]["properties"])
        question, *rest = body["input"]
        assert question == {"role": "user", "content": QUESTION}
        for turn in self.sent:
            said, rest = rest[: len(turn)], rest[len(turn) :]
            assert said == turn, "items of the model were changed"
            calls = [item["call_id"] for item in said if item["type"] == "function_call"]
            results, rest = rest[: len(calls)], rest[len(calls) :]
            assert [(each["type"], each["call_id"]) for each in results] == [
                ("function_call_output", call_id) for call_id in calls
            ], "No tool output found for function call"
        assert rest == []
        self.results += [(each["output"], None) for each in results] if self.sent else []

    def answer(self, number: int, turn: Sequence[Json]) -> list[Json]:
        items = list[Json]()
        for at, call in enumerate(turn):
            thought = {"type": "reasoning", "id": f"rs_{number}_{at}", "summary": [], "encrypted_content": f"s{number}"}
            said = {"name": "memory", "arguments": json.dumps(call), "status": "completed"}
            items += [thought, {"type": "function_call", "id": f"fc_{number}_{at}", "call_id": f"call_{at}", **said}]
        text = {"type": "output_text", "text": "Done.", "annotations": []}
        done = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
        return items or [done]

    def response(self, name: str, items: list[Json]) -> Json:
        known = {"object": "response", "created_at": 1, "model": "gpt", "status": "completed", "tools": []}
        return {**known, "id": name, "output": items, "parallel_tool_calls": True, "tool_choice": "auto"}

    def ask(self, url: str, tool: Any, ask: Callable[..., str]) -> str:
        with OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as client:
            return ask(client, tool, QUESTION)


class GeminiApi(Api):
    """`POST /v1/models/...:generateContent`. Calls have thought signatures, which the client must return."""

    def check(self, received: Received, body: Json) -> None:
        assert re.fullmatch(r"/v1/models/gemini-[\w.-]+:generateContent", received.path)
        assert received.headers["x-goog-api-key"] == KEY
        ((tool,),) = (each["functionDeclarations"] for each in body["tools"])
        assert tool.keys() == {"name", "description", "parameters_json_schema"}  # the API takes both spellings
        check_definition(tool, tool["parameters_json_schema"])
        question, *rest = body["contents"]
        assert question == {"role": "user", "parts": [{"text": QUESTION}]}
        assert len(rest) == 2 * len(self.sent)
        for turn, said, results in zip(self.sent, rest[::2], rest[1::2], strict=True):
            assert said == {"role": "model", "parts": turn}, "parts of the model were changed"
            got = [each["functionResponse"] for each in results["parts"]]
            calls = [each["functionCall"] for each in said["parts"]]
            assert results["role"] == "user"
            assert [(each["id"], each["name"]) for each in got] == [(each["id"], each["name"]) for each in calls], (
                "the number of function response parts must equal the number of function call parts"
            )
            assert all(each["response"].keys() < {"output", "error"} for each in got)
        answered = [each["response"] for each in got] if self.sent else []
        self.results += [(text, key == "error") for each in answered for key, text in each.items()]

    def answer(self, number: int, turn: Sequence[Json]) -> list[Json]:
        calls = [{"id": f"call_{at}", "name": "memory", "args": call} for at, call in enumerate(turn)]
        return [{"functionCall": call, "thoughtSignature": "c2lnbg=="} for call in calls] or [{"text": "Done."}]

    def response(self, name: str, items: list[Json]) -> Json:
        candidate = {"content": {"role": "model", "parts": items}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "modelVersion": "gemini", "responseId": name}

    def ask(self, url: str, tool: Any, ask: Callable[..., str]) -> str:
        with genai.Client(api_key=KEY, http_options={"base_url": url}) as client:
            return ask(client, tool, QUESTION)


VENDORS: dict[str, type[OpenAIApi | GeminiApi]] = {"openai_loop.py": OpenAIApi, "gemini_loop.py": GeminiApi}
Results = list[tuple[str, bool | None]]
Play = Callable[..., Results]


@pytest.fixture(params=VENDORS)
def play(request: pytest.FixtureRequest) -> Play:
    """Run the loop of the examples against a script. Returns what the model got for its calls."""
    name = request.param
    ask, api_type = runpy.run_path(str(ROOT / "examples" / name))["ask"], VENDORS[name]

    def played(store: MemoryStore, turns: Turns, response: str = "r") -> Results:
        api = api_type(turns, response)
        tool = function_tool(store, actor="session:s1", strict=api_type is OpenAIApi)
        with listening(api) as url:
            assert api.ask(url, tool, ask) == "Done."
        return api.results

    return played


def test_every_call_gets_the_reply_of_the_store(play: Play, store: MemoryStore, twin: MemoryStore) -> None:
    """All commands and all errors, several in one turn; the loop goes on after errors. OpenAI has no flag for them."""
    results = play(store, [STORY[at : at + 3] for at in range(0, len(STORY), 3)])
    expected = [twin.execute(command) for command in STORY]
    assert [at for at, reply in enumerate(expected) if reply.is_error] == list(ERRORS)
    assert [text for text, _ in results] == [reply.text for reply in expected]
    assert [flag for _, flag in results] in ([reply.is_error for reply in expected], [None] * len(STORY))
    assert {str(version.actor) for version in store.versions()} == {"session:s1"}


def test_a_call_makes_its_change_once_in_a_response(play: Play, store: MemoryStore) -> None:
    """A program that begins again with the same response changes nothing; another response uses the same ids anew."""
    store.create(A, "")
    add = {"command": "insert", "path": A, "insert_line": 0, "insert_text": "one"}
    turns = [[add, {"command": "create", "path": B, "file_text": "two"}]]
    assert play(store, turns) == play(store, turns)
    assert (store.read(A), store.read(B), len(store.versions())) == ("one\n", "two", 3)
    play(store, turns, "other")
    assert store.read(A) == "one\none\n"
