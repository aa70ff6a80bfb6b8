"""Requests and events of the Messages API: what the client sends and sees, and what the API gets. No I/O.

The gateway runs the calls of the memory tool, so the client sees them as calls of an MCP server: `mcp_tool_use` and
`mcp_tool_result` blocks, which clients show and send back in their places. `restored` turns them into the `tool_use`
and `tool_result` blocks that the API knows. Everything else stays as it is, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from retentive.engine.repeats import is_api_id
from retentive.errors import Refused
from retentive.gateway.records import KeptCall
from retentive.server.errors import HttpError, invalid
from retentive.values.paths import MemoryPath
from retentive.wire.stores import GatewayMode

JsonObject: TypeAlias = dict[str, Any]
TYPE, NAME = "memory_20250818", "memory"
TOOL = {"type": TYPE, "name": NAME}
SERVER = "retentive"
"""Name of the MCP server that the client sees."""
LOST = "[Here was a call of the memory tool. Its record was erased or is too old.]"
UNRUN = "Error: The call was not run, because the reply ended before it was complete."
OVER = "Error: The call was not run, because too many calls of the memory tool were made in one request."
_NO_TOOL = {
    "name": "none",
    "description": "There are no more tools in this turn.",
    "input_schema": {"type": "object", "properties": {}},
}
_BLANK = re.compile(r"[ \t\n\r]*")
_END = re.compile(rb"\r?\n\r?\n")
_DECODER = json.JSONDecoder()


def parsed(data: bytes) -> dict[str, tuple[str, Any]] | None:
    """Return the fields of a request, each as its JSON text and its value. None if it is no JSON object.

    The texts keep what the client sent, byte for byte.
    """
    try:
        text = data.decode("utf-8")
        values = {key: (raw, value) for key, raw, value in _members(text)}
    except (ValueError, IndexError, RecursionError, TypeError):
        return None
    return values if text.lstrip()[:1] == "{" else None


def _members(text: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the key, the JSON text and the value of each member of a JSON object or array. The keys of items are ""."""
    at = _blank(text, 0)
    is_object, close = text[at] == "{", "}" if text[at] == "{" else "]"
    at = _blank(text, at + 1)
    while text[at] != close:
        key = ""
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _blank(text, at)
            if text[at] != ":":
                raise ValueError
            at = _blank(text, at + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield key, text[at:end], value
        at = _blank(text, end)
        if text[at] == ",":
            at = _blank(text, at + 1)
    if _blank(text, at + 1) != len(text):
        raise ValueError


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _spliced(array: str, items: Iterable[object]) -> str:
    """Return a JSON array with items added at its end. The others keep their bytes."""
    added, start = ",".join(map(_json, items)), array.rstrip()[:-1].rstrip()
    return f"{start}{',' if added and start != '[' else ''}{added}]"


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """Request for a message: the JSON text and the value of each field.

    `acts` is True if the gateway gives the model the memory tool and runs its calls.
    """

    fields: Mapping[str, tuple[str, Any]]
    acts: bool
    is_changed: bool = False

    @classmethod
    def read(cls, fields: Mapping[str, tuple[str, Any]], mode: GatewayMode) -> MessagesRequest:
        """Return the request that has the memory tool if the mode says so. Raises `HttpError` for a message thread."""
        values = {name: value for name, (_, value) in fields.items()}
        choice, tools, messages = values.get("tool_choice"), values.get("tools"), values.get("messages")
        is_free = choice is None or (isinstance(choice, dict) and choice.get("type") == "auto")
        listed = [] if tools is None else tools
        named = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        memory = [each.get("type") for each in named if each.get("name") == NAME or each.get("type") == TYPE]
        is_sound = isinstance(listed, list) and isinstance(messages, list) and is_free
        if not is_sound or any(kind != TYPE for kind in memory) or not (memory or mode == "added"):
            return cls(fields, acts=False)
        if values.get("thread") is not None:
            message = "This request cannot be threaded; send the full conversation without `thread`."
            raise invalid(message, "thread_unsupported_request")
        if memory:
            return cls(fields, acts=True)
        text = fields["tools"][0] if isinstance(tools, list) else "[]"
        return cls({**fields, "tools": (_spliced(text, [TOOL]), [*listed, TOOL])}, acts=True, is_changed=True)

    @property
    def is_stream(self) -> bool:
        """True if the client asks for a stream."""
        return self.fields.get("stream", ("", None))[1] is True

    @property
    def identity(self) -> list[str]:
        """Names and texts of the fields. A client may ask again without a stream, and order its fields otherwise."""
        return [part for name, (text, _) in sorted(self.fields.items()) if name != "stream" for part in (name, text)]

    def memory_ids(self) -> list[str]:
        """Return the ids of the calls that the client sent back."""
        text, messages = self.fields.get("messages", ("", None))
        if "mcptoolu_" not in text or not isinstance(messages, list):
            return []
        return [str(block.get("id")) for message in messages for block in _blocks(message) if _is_use(block)]

    def with_calls(self, calls: Mapping[str, KeptCall]) -> MessagesRequest:
        """Return the request with the calls that the client sent back as calls of the memory tool."""
        text, messages = self.fields["messages"]
        raw = {id(value): item for (_, item, _), value in zip(_members(text), messages, strict=True)}
        after = restored(messages, calls)
        texts = ",".join(raw.get(id(each)) or _json(each) for each in after)
        return MessagesRequest({**self.fields, "messages": (f"[{texts}]", after)}, self.acts, is_changed=True)

    def body(self, data: bytes) -> bytes:
        """Return the body for the API: `data`, which the client sent, unless something was changed."""
        return _joined({name: text for name, (text, _) in self.fields.items()}) if self.is_changed else data

    def following(self, messages: Sequence[JsonObject], *, container: str | None, is_last: bool) -> bytes:
        """Return the body of the request that continues with further messages. The last one has no memory tool."""
        fields = {name: text for name, (text, _) in self.fields.items()}
        fields["messages"] = _spliced(fields["messages"], messages)
        if container is not None:
            fields["container"] = _json(container)
        if is_last:
            tools = [each for each in self.fields["tools"][1] if not isinstance(each, dict) or each.get("name") != NAME]
            fields["tools"] = _json(tools or [_NO_TOOL])  # the API wants tools if there are calls in the messages
            fields |= {} if tools else {"tool_choice": '{"type":"none"}'}
        return _joined(fields)


def _joined(fields: Mapping[str, str]) -> bytes:
    return f"{{{','.join(f'{_json(name)}:{text}' for name, text in fields.items())}}}".encode()


def check_batch(fields: Mapping[str, tuple[str, Any]] | None) -> None:
    """Raise `HttpError` 400 if a request of a batch declares the memory tool, whose calls nobody would answer."""
    requests = (fields or {}).get("requests", ("", None))[1]
    for each in requests if isinstance(requests, list) else ():
        params = each.get("params") if isinstance(each, dict) else None
        given = params.get("tools") if isinstance(params, dict) else None
        tools = given if isinstance(given, list) else []
        if any(isinstance(tool, dict) and tool.get("type") == TYPE for tool in tools):
            raise invalid(
                "a batch cannot use the memory tool through the gateway, because its calls could not be answered; "
                "send single requests, or leave out the tool"
            )


def _blocks(message: object) -> list[JsonObject]:
    """Return the blocks of a message of the assistant."""
    content = message.get("content") if isinstance(message, dict) and message.get("role") == "assistant" else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def is_memory(block: JsonObject) -> bool:
    """Return whether a block of the API is a call of the memory tool."""
    return block.get("type") == "tool_use" and block.get("name") == NAME


def _is_use(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "mcp_tool_use" and block.get("server_name") == SERVER


def _is_result(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "mcp_tool_result"


def restored(messages: Sequence[Any], calls: Mapping[str, KeptCall]) -> list[Any]:
    """Return the messages of a conversation as the model saw them. A message that stays is the same object.

    A reply of the client has several turns of the model. A turn ends with the results of its calls. The results of the
    last turn come first in the next message of the user. A call without a record becomes a text that says so.
    """
    found, waiting = list[Any](), list[JsonObject]()
    for message in messages:
        if waiting and isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            rest = content if isinstance(content, list) else [{"type": "text", "text": content}]
            found.append({**message, "content": [*waiting, *rest]})
            waiting = []
            continue
        if waiting:
            found.append({"role": "user", "content": waiting})
            waiting = []
        if not any(map(_is_use, _blocks(message))):
            found.append(message)
            continue
        turns = list(_turns(message["content"], calls))
        for blocks, results in turns:
            found.append({**message, "content": blocks})
            if results:
                found.append({"role": "user", "content": results})
        waiting = found.pop()["content"] if turns[-1][1] else []
    return [*found, {"role": "user", "content": waiting}] if waiting else found


def _turns(content: Sequence[Any], calls: Mapping[str, KeptCall]) -> Iterator[tuple[list[Any], list[JsonObject]]]:
    """Yield the turns in a reply of the client: the blocks of each, and the results of its memory calls."""
    blocks, results, turn, is_over = list[Any](), dict[str, JsonObject](), "", False
    ours = {str(block.get("id")) for block in content if _is_use(block)}
    for block in content:
        if _is_result(block) and str(block.get("tool_use_id")) in ours:
            if (result := results.get(str(block["tool_use_id"]))) is not None:
                is_over = True
                result |= _marks(block)
            continue
        call = calls.get(str(block.get("id"))) if _is_use(block) else None
        if results and (is_over if call is None else call.turn != turn):
            yield blocks, list(results.values())
            blocks, results = [], {}
        is_over = False
        if call is not None:
            turn = call.turn
            blocks.append({**call.block, **_marks(block)})
            results[call.id] = result_block(call)
        else:
            blocks.append({"type": "text", "text": LOST} if _is_use(block) else block)
    yield blocks, list(results.values())


def _marks(block: JsonObject) -> JsonObject:
    """Return the cache breakpoint that a client has set at a block."""
    return {"cache_control": block["cache_control"]} if block.get("cache_control") is not None else {}


def result_block(call: KeptCall) -> JsonObject:
    """Return the tool_result block of a call."""
    result = {"type": "tool_result", "tool_use_id": call.block["id"], "content": call.reply}
    return result | ({"is_error": True} if call.is_error else {})


def shown(call: KeptCall) -> JsonObject:
    """Return the result of a call as the client sees it."""
    content = [{"type": "text", "text": call.reply}]
    return {"type": "mcp_tool_result", "tool_use_id": call.id, "is_error": call.is_error, "content": content}


def client_id(message_id: str, tool_use_id: str) -> str:
    """Return the id that the client sees. Ids of other APIs may occur again, so theirs depends on the message."""
    if is_api_id(tool_use_id):
        return f"mcp{tool_use_id}"
    return f"mcptoolu_{hashlib.sha256(_json([message_id, tool_use_id]).encode()).hexdigest()[:24]}"


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
    _parts: list[str] = field(default_factory=list)
    _held: list[tuple[bytes, JsonObject]] = field(default_factory=list)

    @property
    def content(self) -> list[JsonObject]:
        """Blocks of the message."""
        found: list[JsonObject] = self.message.get("content", [])
        return found

    @property
    def message_id(self) -> str:
        """Id of the message."""
        return str(self.message.get("id"))

    @property
    def id(self) -> str:
        """Number and id of the message, which tell two turns of one reply apart."""
        return f"{self.number}.{self.message_id}"

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
        return self.may_run and len(self.uses) == sum(block.get("type") == "tool_use" for block in self.content)

    def for_client(self, results: Iterable[KeptCall]) -> list[JsonObject]:
        """Return the blocks that the client sees: the memory calls as calls of an MCP server, then their results."""
        return [*map(self._for_client, self.content), *map(shown, results)]

    def _for_client(self, block: JsonObject) -> JsonObject:
        if not is_memory(block):
            return block
        use = {"id": client_id(self.message_id, block["id"]), "name": NAME, "server_name": SERVER}
        return {"type": "mcp_tool_use", **use, "input": block["input"] if isinstance(block["input"], dict) else {}}

    def to_send(self, results: Iterable[KeptCall]) -> list[JsonObject]:
        """Return the messages with which the conversation goes on: this one, and the results of its calls."""
        sent = [each for each in self.content if each.get("type") != "text" or str(each.get("text")).strip()]
        return [
            {"role": "assistant", "content": sent},
            {"role": "user", "content": list(map(result_block, results))},
        ]

    def take(self, raw: bytes) -> list[bytes]:
        """Take one event of the stream, and return what the client gets at once."""
        event = event_of(raw)
        kind = event.get("type")
        if kind == "message_start":
            self.message = dict(event["message"])
            self.message["content"] = []
            return [raw] if self.number == 1 else []
        if kind in {"content_block_start", "content_block_delta", "content_block_stop"}:
            return self._take_block(str(kind), event, raw)
        if kind == "message_delta":
            more = {name: value for name, value in event.items() if name not in {"type", "delta", "usage"}}
            usage = {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            self.message |= {**event["delta"], **more, "usage": {**(self.message.get("usage") or {}), **usage}}
        if kind in {"message_delta", "message_stop"}:
            self.is_complete = kind == "message_stop"
            self._held.append((raw, event))
            return []
        self.has_failed = self.has_failed or kind == "error"
        return [raw]  # pings, errors, and what is not known yet

    def _take_block(self, kind: str, event: JsonObject, raw: bytes) -> list[bytes]:
        if kind == "content_block_start":
            self.content.append(dict(event["content_block"]))
            self._parts = []
        block = self.content[-1]
        if kind == "content_block_delta":
            self._add(block, event["delta"])
        elif kind == "content_block_stop" and self._parts:
            block["input"] = _input("".join(self._parts))
        index = self.start + int(event["index"])
        if is_memory(block):
            return _whole(index, self._for_client(block)) if kind == "content_block_stop" else []
        return [raw if index == event["index"] else encoded({**event, "index": index})]

    def _add(self, block: JsonObject, delta: JsonObject) -> None:
        match delta.get("type"):
            case "text_delta" | "thinking_delta" as kind:
                name = str(kind).removesuffix("_delta")
                block[name] = block.get(name, "") + delta[name]
            case "input_json_delta":
                self._parts.append(delta["partial_json"])
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            case _:  # the signature of thinking, the summary of a compaction
                block |= {name: value for name, value in delta.items() if name != "type"}

    def results(self, answers: Iterable[KeptCall]) -> list[bytes]:
        """Return the events with the results of the calls, as the client sees them."""
        start = self.start + len(self.content)
        return [event for n, each in enumerate(answers) for event in _whole(start + n, shown(each))]

    def end(self, usages: Sequence[JsonObject], stop_reason: str | None = None) -> list[bytes]:
        """Return the last events. If there were several turns, they have the usage of all."""
        if len(usages) == 1 and stop_reason is None:
            return [raw for raw, _ in self._held]
        found = list[bytes]()
        for raw, event in self._held:
            if event["type"] != "message_delta":
                found.append(raw)
                continue
            delta = event["delta"] if stop_reason is None else {**event["delta"], "stop_reason": stop_reason}
            usage = {**(event.get("usage") or {}), **total_usage(usages)}
            found.append(encoded({**event, "delta": delta, "usage": usage}))
        return found


def _input(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # the message was cut
        return {}


_COUNTED = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def total_usage(usages: Sequence[JsonObject]) -> JsonObject:
    """Return the usage of a reply: that of the last turn, and all turns in `iterations`.

    Clients compact a conversation by its input tokens, so those of several turns must not be added.
    """
    last = {name: usages[-1][name] for name in (*_COUNTED, "cache_creation") if usages[-1].get(name) is not None}
    iterations = list[JsonObject]()
    for usage in usages:
        counted = {name: usage.get(name) or 0 for name in _COUNTED}
        cache = {"cache_creation": usage["cache_creation"]} if usage.get("cache_creation") is not None else {}
        iterations += usage.get("iterations") or [{"type": "message", **counted, **cache}]
    return {**last, "iterations": iterations}


def whole_reply(turns: Sequence[tuple[ModelTurn, Sequence[KeptCall]]]) -> JsonObject:
    """Return the message that the client gets for several turns of the model."""
    (first, _), (last, _) = turns[0], turns[-1]
    content = [block for turn, results in turns for block in turn.for_client(results)]
    usages = [turn.message.get("usage") or {} for turn, _ in turns]
    usage = usages[0] if len(turns) == 1 else {**usages[-1], **total_usage(usages)}
    return {**last.message, "id": first.message.get("id"), "content": content, "usage": usage}


class Splitter:
    """Splits a stream of server-sent events into single events, whatever its pieces are."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[bytes]:
        """Return the events that are whole now, each with the blank line at its end."""
        before = max(len(self._rest) - 3, 0)
        self._rest += data
        found, start = list[bytes](), 0
        for end in _END.finditer(self._rest, before):
            found.append(self._rest[start : end.end()])
            start = end.end()
        self._rest = self._rest[start:]
        return found


def event_of(raw: bytes) -> JsonObject:
    """Return the data of an event. Empty if it has none that can be read."""
    lines = (line[5:].lstrip(b" ") for line in raw.splitlines() if line.startswith(b"data:"))
    try:
        found = json.loads(b"\n".join(lines) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def encoded(event: JsonObject) -> bytes:
    """Return an event as bytes."""
    return f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def _whole(index: int, block: JsonObject) -> list[bytes]:
    """Return the events of a block that has no deltas. Claude Code refuses deltas of an `mcp_tool_use`."""
    start = {"type": "content_block_start", "index": index, "content_block": block}
    return [encoded(start), encoded({"type": "content_block_stop", "index": index})]


def events_of(message: JsonObject) -> Iterator[bytes]:
    """Yield the events of a whole message, as if the API had streamed it."""
    yield encoded({"type": "message_start", "message": {**message, "content": [], "stop_reason": None}})
    for index, block in enumerate(message["content"]):
        empty, deltas = _empty(block)
        yield encoded({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield encoded({"type": "content_block_delta", "index": index, "delta": delta})
        yield encoded({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": message.get("stop_reason"), "stop_sequence": message.get("stop_sequence")}
    yield encoded({"type": "message_delta", "delta": ended, "usage": message.get("usage") or {}})
    yield encoded({"type": "message_stop"})


def _empty(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """Return a block as a stream starts it, and the deltas that fill it."""
    match block["type"]:
        case "text" | "thinking" as kind:
            deltas = [{"type": f"{kind}_delta", kind: block[kind]}]
            deltas += [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
            signed = block.get("signature")
            deltas += [] if signed is None else [{"type": "signature_delta", "signature": signed}]
            rest = {name: value for name, value in block.items() if name not in {"citations", "signature"}}
            return {**rest, kind: "", **({} if signed is None else {"signature": ""})}, deltas
        case "tool_use" | "server_tool_use":
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    return block, []


def paths_in(call: object) -> tuple[str, ...]:
    """Return the valid memory paths in the input of a call."""
    found = list[str]()
    for name in ("path", "old_path", "new_path"):
        path = call.get(name) if isinstance(call, dict) else None
        with suppress(Refused):
            found += [MemoryPath.parse(path).text] if isinstance(path, str) else []
    return tuple(found)


def masked(value: Any, mask: Callable[[str], str]) -> Any:
    """Return a JSON value with `mask` applied to all its strings."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [masked(each, mask) for each in value]
    if isinstance(value, dict):
        return {mask(str(name)): masked(each, mask) for name, each in value.items()}
    return value


def failed(error: HttpError) -> bytes:
    """Return an error as an event of a stream."""
    return encoded({"type": "error", "error": {"type": error.kind, "message": error.message}})
