"""Laws of the transformation: whatever a model says and however a stream is cut, the model sees its own view again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from httpx2 import EventSource, Request, Response
from hypothesis import given, settings
from hypothesis import strategies as st

from retentive.gateway.transform import LOST, JsonObject, MessagesRequest, check_batch, parsed, restored, result_block
from retentive.gateway.turns import ModelTurn, encoded, events_of, usage_of, whole_reply
from support.profiles import sized

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
INPUTS = st.dictionaries(st.sampled_from(["command", "path", "file_text"]), TEXTS, max_size=3)
IDS = st.uuids().map(lambda found: f"toolu_{found.hex[:24]}")


def use(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just("tool_use"), "id": IDS, "name": st.just(name), "input": INPUTS})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS, lambda each: st.lists(each) | st.dictionaries(TEXTS, each)
)
TEXT = st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS})
THINKING = st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS, "signature": TEXTS})
SERVER = st.just({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tea"}})
FOUND = st.just({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []})
BEFORE = st.lists(TEXT | THINKING | SERVER | FOUND, max_size=3)
USAGE = st.fixed_dictionaries({"input_tokens": st.integers(1, 9_999), "output_tokens": st.integers(1, 9_999)})


@st.composite
def messages(draw: st.DrawFn, *, rounds: int = 4) -> list[dict[str, Any]]:
    """Messages of the model in one request: turns of memory calls, and a last one, perhaps with calls of the app."""
    found = []
    count = draw(st.integers(0, rounds))
    for number in range(count + 1):
        is_last = number == count
        calls = draw(st.lists(use("memory"), min_size=0 if is_last else 1, max_size=3))
        others = draw(st.lists(use("search"), max_size=2)) if is_last else []
        content = [*draw(BEFORE), *draw(st.permutations([*calls, *others]))] or [{"type": "text", "text": "Done."}]
        reason = "tool_use" if (calls and not is_last) or others else "end_turn"
        head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        found.append({**head, "content": content, "stop_reason": reason, "usage": draw(USAGE)})
    return found


def answered(turn: ModelTurn) -> list[Any]:
    """Results of the calls of a turn."""
    return [
        turn.answered(each, f"reply to {each['input']}", is_error=number % 2 == 1)
        for number, each in enumerate(turn.uses)
    ]


def through(given: list[dict[str, Any]]) -> tuple[list[Any], list[dict[str, Any]]]:
    """The turns with their results, and the messages that the model sees in them."""
    turns, seen = list[Any](), list[dict[str, Any]]()
    for number, message in enumerate(given, 1):
        turn = ModelTurn(number, sum(len(each.content) + len(found) for each, found in turns))
        turn.message, turn.is_complete = message, True
        results = answered(turn)
        turns.append((turn, results))
        seen.append({"role": "assistant", "content": message["content"]})
        if results:
            seen.append({"role": "user", "content": list(map(result_block, results))})
    return turns, seen


def accumulated(events: list[JsonObject]) -> dict[str, Any]:
    """The message that a client builds from events. Fails if an index is wrong."""
    found: dict[str, Any] = {}
    parts: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                found = {**event["message"], "content": []}
            case "content_block_start":
                assert event["index"] == len(found["content"])
                found["content"].append(dict(event["content_block"]))
            case "content_block_delta":
                assert event["index"] == len(found["content"]) - 1
                block, delta = found["content"][-1], event["delta"]
                if delta["type"] == "input_json_delta":
                    assert block["type"] != "mcp_tool_use"  # Claude Code refuses it
                    parts[event["index"]] = parts.get(event["index"], "") + delta["partial_json"]
                    block["input"] = json.loads(parts[event["index"]])
                else:
                    (name,) = delta.keys() - {"type"}
                    block[name] = block[name] + delta[name]
            case "message_delta":
                found |= event["delta"] | {"usage": {**found["usage"], **event["usage"]}}
    return found


def pieces(data: bytes, sizes: Iterator[int]) -> Iterator[bytes]:
    while data:
        size = next(sizes, len(data))
        yield data[:size]
        data = data[size:]


def streamed(given: list[dict[str, Any]], cuts: list[int]) -> list[JsonObject]:
    """The events that a client gets for streams that arrive in pieces of any sizes."""
    out, turns, sizes = list[JsonObject](), list[Any](), iter(cuts)
    for number, message in enumerate(given, 1):
        turn = ModelTurn(number, sum(len(each.content) + len(found) for each, found in turns))
        sent = Response(
            200,
            headers={"content-type": "text/event-stream"},
            content=pieces(encoded(events_of(message)), sizes),
            request=Request("POST", "http://api"),
        )
        for event in EventSource(sent):
            out += turn.take(json.loads(event.data))
        assert turn.is_complete
        results = answered(turn)
        out += turn.results(results)
        turns.append((turn, results))
    last: ModelTurn = turns[-1][0]
    return out + last.end(usage_of(turns))


@given(messages(), st.lists(st.integers(1, 60), max_size=200))
def test_a_stream_and_a_whole_message_are_the_same_to_the_client(given: list[Any], cuts: list[int]) -> None:
    turns, _ = through(given)
    assert accumulated(streamed(given, cuts)) == whole_reply(turns)


@given(messages(), TEXTS)
def test_the_model_sees_its_own_view_again(given: list[Any], text: str) -> None:
    turns, seen = through(given)
    calls = {call.id: call for _, results in turns for call in results}
    content = whole_reply(turns)["content"]
    lossy = [{**block, "input": {}} if block["type"] == "mcp_tool_use" else block for block in content]
    says = {"type": "text", "text": text}
    before = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": lossy}]
    found = restored([*before, {"role": "user", "content": [says]}], calls)
    last = [*seen[-1]["content"], says] if seen[-1]["role"] == "user" else [says]
    kept = seen[:-1] if seen[-1]["role"] == "user" else seen
    assert found == [before[0], *kept, {"role": "user", "content": last}]
    if seen[-1]["role"] == "user":  # a string is one text block
        assert restored([*before, {"role": "user", "content": text}], calls) == found


@given(messages())
def test_a_call_without_a_record_is_a_text(given: list[Any]) -> None:
    turns, _ = through(given)
    content = whole_reply(turns)["content"]
    found = restored([{"role": "assistant", "content": content}], {})
    blocks = [block for message in found for block in message["content"]]
    assert not [block for block in blocks if block["type"].startswith("mcp_")]
    assert sum(block.get("text") == LOST for block in blocks) == sum(len(results) for _, results in turns)


@given(st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"])}, optional={"content": JSON})))
def test_what_a_client_sends_never_fails(given: list[Any]) -> None:
    broken = {"type": "mcp_tool_use", "server_name": "retentive", "id": []}
    result = {"type": "mcp_tool_result", "tool_use_id": {}}
    assert restored(given, {}) == given
    assert restored([*given, {"role": "assistant", "content": [broken, result]}], {})[: len(given)] == given


@given(messages())
def test_usage_is_that_of_the_last_turn_and_of_all(given: list[Any]) -> None:
    last, compacted = given[-1]["usage"], {"type": "compaction", "input_tokens": 5, "output_tokens": 1}
    tokens = [each["usage"]["input_tokens"] for each in given]
    given[0] = given[0] | {"usage": {**given[0]["usage"], "iterations": [compacted, given[0]["usage"]]}}
    usage = whole_reply(through(given)[0])["usage"]
    assert {name: usage[name] for name in ("input_tokens", "output_tokens")} == last
    assert [each["input_tokens"] for each in usage["iterations"]] == [5, *tokens]


@settings(max_examples=sized(quick=5, long=150, full=500))
@given(st.dictionaries(TEXTS, JSON), st.sampled_from([None, 1, 3]), st.booleans())
def test_other_fields_keep_their_bytes(others: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    tools = [{"name": "search", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}]
    body = others | {
        "messages": [{"role": "user", "content": "ä"}],
        "tools": tools,
        "tool_choice": None,
        "thread": None,
    }
    data = json.dumps(body, indent=indent, ensure_ascii=ascii_only).encode()
    fields = parsed(data)
    assert fields is not None
    request, declared = MessagesRequest.read(data, "added"), MessagesRequest.read(data, "declared")
    assert request is not None
    assert declared is not None
    sent = parsed(request.body())
    assert sent is not None
    assert {name: text for name, (text, _) in sent.items() if name != "tools"} == {
        name: text for name, (text, _) in fields.items() if name != "tools"
    }
    assert sent["tools"][1] == [*tools, {"type": "memory_20250818", "name": "memory"}]
    assert fields["tools"][0].rstrip()[:-1].rstrip() in sent["tools"][0]
    assert parsed(declared.body()) == fields


@given(st.binary() | JSON.map(lambda each: json.dumps(each).encode()))
def test_what_is_no_object_is_passed_on(data: bytes) -> None:
    found = parsed(data)
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    assert (found is None) == (not isinstance(value, dict))
    check_batch(found)
