"""Messages of the model as the client sees them, whole and as events of a stream. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from retentive.engine.repeats import is_api_id
from retentive.gateway.records import KeptCall
from retentive.gateway.transform import NAME, SERVER, JsonObject, is_memory, masked, paths_in, result_block
from retentive.server.errors import HttpError
from retentive.values.text import digest

MALFORMED = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors by which a response of the API is found to be none of the Messages API."""


def shown(call: KeptCall) -> JsonObject:
    """Return the result of a call as the client sees it."""
    content = [{"type": "text", "text": call.reply}]
    return {"type": "mcp_tool_result", "tool_use_id": call.id, "is_error": call.is_error, "content": content}


@dataclass(slots=True)
class ModelTurn:
    """One message of the model: `message` is complete at its end. `uses` are its calls of the memory tool, in order.

    `take` gets its events and returns those for the client; `start` is the index of the first block that the client
    sees of it.
    """

    number: int = 1
    start: int = 0
    message: JsonObject = field(default_factory=dict)
    is_complete: bool = False
    has_failed: bool = False
    _parts: dict[str, list[str]] = field(default_factory=dict)
    _held: list[JsonObject] = field(default_factory=list)

    @property
    def content(self) -> list[JsonObject]:
        """Blocks of the message."""
        found: list[JsonObject] = self.message.get("content", [])
        return found

    @property
    def id(self) -> str:
        """Number and id of the message, which tell two turns of one reply apart."""
        return f"{self.number}.{self.message.get('id')}"

    @property
    def uses(self) -> list[JsonObject]:
        """Calls of the memory tool."""
        return list(filter(is_memory, self.content))

    @property
    def may_run(self) -> bool:
        """True if the calls of the memory tool are to be run. Otherwise, the message was cut or refused."""
        return self.message.get("stop_reason") == "tool_use"

    @property
    def goes_on(self) -> bool:
        """True if the gateway can answer all calls of the message, because the client has no call to answer."""
        return self.may_run and all(is_memory(block) for block in self.content if block.get("type") == "tool_use")

    def check(self) -> None:
        """Raise one of `MALFORMED` if the message has another form than the gateway can use. Call it before `uses`."""
        whole_reply([(self, ()), (self, ())])
        dict.keys(self.message.get("container") or {})

    def for_client(self, block: JsonObject) -> JsonObject:
        """Return a block as the client sees it: a memory call as the call of an MCP server."""
        if not is_memory(block):
            return block
        given = block["input"] if isinstance(block["input"], dict) else {}
        use = {"id": self.client_id(block), "name": NAME, "server_name": SERVER}
        return {"type": "mcp_tool_use", **use, "input": masked(given, _sound)}

    def client_id(self, block: JsonObject) -> str:
        """Return the id that the client sees. Ids of other APIs may occur again, so theirs depends on the message."""
        if is_api_id(block["id"]):
            return f"mcp{block['id']}"
        return f"mcptoolu_{digest(json.dumps([self.message.get('id'), block['id']]))[:24]}"

    def answered(self, use: JsonObject, reply: str, *, is_error: bool = False) -> KeptCall:
        """Return a call of the message with its reply."""
        return KeptCall(self.client_id(use), self.id, use, reply, is_error, paths_in(use["input"]))

    def to_send(self, results: Iterable[KeptCall]) -> list[JsonObject]:
        """Return the messages with which the conversation goes on: this one, and the results of its calls."""
        sent = [each for each in self.content if each.get("type") != "text" or str(each.get("text")).strip()]
        return [
            {"role": "assistant", "content": sent},
            {"role": "user", "content": list(map(result_block, results))},
        ]

    def take(self, event: JsonObject) -> list[JsonObject]:
        """Take one event of the stream, and return what the client gets at once."""
        kind = event["type"]
        if kind == "message_start":
            self.message = {**event["message"], "content": []}
            return [event] if self.number == 1 else []
        if kind in {"content_block_start", "content_block_delta", "content_block_stop"}:
            return self._take_block(kind, event)
        if kind == "message_delta":
            more = {name: value for name, value in event.items() if name not in {"type", "delta", "usage"}}
            usage = {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            self.message |= {**event["delta"], **more, "usage": {**(self.message.get("usage") or {}), **usage}}
        if kind in {"message_delta", "message_stop"}:
            self.is_complete = kind == "message_stop"
            self._held.append(event)
            return []
        self.has_failed = self.has_failed or kind == "error"
        return [event]  # pings, errors, and what is not known yet

    def _take_block(self, kind: str, event: JsonObject) -> list[JsonObject]:
        if kind == "content_block_start":
            self.content.append(dict(event["content_block"]))
            self._parts = {}
        block = self.content[-1]
        if kind == "content_block_delta":
            self._add(block, event["delta"])
        elif kind == "content_block_stop":
            for name, texts in self._parts.items():
                text = "".join(texts)
                block |= {"input": _input(text)} if name == "partial_json" else {name: block.get(name, "") + text}
        index = self.start + int(event["index"])
        if is_memory(block):
            return _whole(index, self.for_client(block)) if kind == "content_block_stop" else []
        return [{**event, "index": index}]

    def _add(self, block: JsonObject, delta: JsonObject) -> None:
        match delta.get("type"):
            case "text_delta" | "thinking_delta" | "input_json_delta" as kind:
                name = "partial_json" if kind == "input_json_delta" else str(kind).removesuffix("_delta")
                self._parts.setdefault(name, []).append(delta[name])
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            case _:  # the signature of thinking, the summary of a compaction
                block |= {name: value for name, value in delta.items() if name != "type"}

    def results(self, answers: Iterable[KeptCall]) -> list[JsonObject]:
        """Return the events with the results of the calls, as the client sees them."""
        start = self.start + len(self.content)
        return [event for n, each in enumerate(answers) for event in _whole(start + n, shown(each))]

    def end(self, usage: JsonObject, stop_reason: str | None = None) -> list[JsonObject]:
        """Return the last events, with the usage of several turns or another stop reason if they are given."""
        for event in self._held:
            if event["type"] == "message_delta":
                event["delta"] |= {} if stop_reason is None else {"stop_reason": stop_reason}
                event["usage"] = {**(event.get("usage") or {}), **usage}
        return self._held


def _input(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # the message was cut
        return {}


_COUNTED = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def usage_of(turns: Sequence[tuple[ModelTurn, Sequence[KeptCall]]]) -> JsonObject:
    """Return the usage of several turns: that of the last one, and all in `iterations`. Empty for a single turn.

    Clients compact a conversation by its input tokens, so those of several turns must not be added.
    """
    usages = [turn.message.get("usage") or {} for turn, _ in turns]
    if len(usages) == 1:
        return {}
    known = [
        {name: each[name] for name in (*_COUNTED, "cache_creation") if each.get(name) is not None} for each in usages
    ]
    zeros = dict.fromkeys(_COUNTED, 0)
    iterations = [
        part
        for usage, counted in zip(usages, known, strict=True)
        for part in usage.get("iterations") or [{"type": "message", **zeros, **counted}]
    ]
    return {**known[-1], "iterations": iterations}


def whole_reply(turns: Sequence[tuple[ModelTurn, Sequence[KeptCall]]], stop_reason: str | None = None) -> JsonObject:
    """Return the message that the client gets for several turns of the model."""
    (first, _), (last, _) = turns[0], turns[-1]
    content = [
        block for turn, results in turns for block in (*map(turn.for_client, turn.content), *map(shown, results))
    ]
    usage = {**(last.message.get("usage") or {}), **usage_of(turns)}
    reason = last.message.get("stop_reason") if stop_reason is None else stop_reason
    return {**last.message, "id": first.message.get("id"), "content": content, "usage": usage, "stop_reason": reason}


def encoded(events: Iterable[JsonObject]) -> bytes:
    """Return server-sent events as bytes."""
    lines = (f"event: {each['type']}\ndata: {json.dumps(each, separators=(',', ':'))}\n\n" for each in events)
    return "".join(lines).encode()


def _whole(index: int, block: JsonObject, deltas: Iterable[JsonObject] = ()) -> list[JsonObject]:
    """Return the events of a block. Claude Code refuses deltas of an `mcp_tool_use`."""
    start: JsonObject = {"type": "content_block_start", "index": index, "content_block": block}
    middle = [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
    return [start, *middle, {"type": "content_block_stop", "index": index}]


def events_of(message: JsonObject) -> Iterator[JsonObject]:
    """Yield the events of a whole message, as if the API had streamed it."""
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        empty, deltas = dict(block), list[JsonObject]()
        if block["type"] in {"tool_use", "server_tool_use"}:
            deltas.append({"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
            empty["input"] = {}
        elif block["type"] in {"text", "thinking"}:
            texts = {name: block[name] for name in ("text", "thinking", "signature") if block.get(name) is not None}
            deltas += ({"type": f"{name}_delta", name: text} for name, text in texts.items())
            empty |= dict.fromkeys(texts, "")
        yield from _whole(index, empty, deltas)
    ended = {"stop_reason": message.get("stop_reason"), "stop_sequence": message.get("stop_sequence")}
    yield {"type": "message_delta", "delta": ended, "usage": message.get("usage") or {}}
    yield {"type": "message_stop"}


def _sound(text: str) -> str:
    """Return a text without the halves of surrogate pairs, which clients cannot send back."""
    return text.encode("utf-8", "replace").decode()


def failed(error: HttpError) -> JsonObject:
    """Return an error as an event of a stream."""
    return {"type": "error", "error": {"type": error.kind, "message": error.message}}
