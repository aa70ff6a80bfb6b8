"""Requests of the Messages API: what the client sends, and what the API gets. No I/O.

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
from dataclasses import dataclass
from typing import Any, TypeAlias

from retentive.errors import Refused
from retentive.gateway.records import KeptCall
from retentive.integrations.messages import TOOL, render
from retentive.server.errors import invalid
from retentive.values.paths import MemoryPath
from retentive.values.replies import Reply
from retentive.wire.stores import GatewayMode

JsonObject: TypeAlias = dict[str, Any]
TYPE, NAME = TOOL["type"], TOOL["name"]
SERVER = "retentive"
"""Name of the MCP server that the client sees."""
LOST = "[Here was a call of the memory tool. Its record was erased, is too old, or could not be kept.]"
UNRUN = "Error: The call was not run, because the reply ended before it was complete."
OVER = "Error: The call was not run, because too many calls of the memory tool were made in one request."
_NO_TOOL = {"name": "none", "description": "There are no more tools.", "input_schema": {"type": "object"}}
_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def parsed(data: bytes) -> dict[str, tuple[str, Any]] | None:
    """Return the fields of a request, each as its JSON text and its value. None if it is no JSON object."""
    try:
        return dict(_members(data.decode("utf-8").strip(" \t\n\r")))
    except (ValueError, IndexError, RecursionError, TypeError):
        return None


def _members(text: str) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Yield the key, and the JSON text and the value, of each member of a JSON object. Raises `ValueError`."""
    if text[0] != "{":
        raise ValueError
    at = _after_blank(text, 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _after_blank(text, at)
        if text[at] != ":":
            raise ValueError
        start = _after_blank(text, at + 1)
        value, end = _DECODER.raw_decode(text, start)
        yield key, (text[start:end], value)
        at = _after_blank(text, end)
        if text[at] == ",":
            at = _after_blank(text, at + 1)
    if at + 1 != len(text):
        raise ValueError


def _after_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _spliced(array: str, items: Iterable[object]) -> str:
    """Return a JSON array with items added at its end. The others keep their bytes."""
    added, start = ",".join(map(_json, items)), array[:-1].rstrip()
    return f"{start}{',' if added and start != '[' else ''}{added}]"


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """Request for a message: the JSON text and the value of each field.

    `acts` is True if the gateway gives the model the memory tool and runs its calls.
    """

    fields: Mapping[str, tuple[str, Any]]
    acts: bool

    @classmethod
    def read(cls, data: bytes, mode: GatewayMode) -> MessagesRequest | None:
        """Return the request that has the memory tool if the mode says so. None if it is no JSON object.

        Raises `HttpError` for a message thread.
        """
        fields = parsed(data)
        if fields is None:
            return None
        choice, tools, messages, thread = (
            fields.get(name, ("", None))[1] for name in ("tool_choice", "tools", "messages", "thread")
        )
        is_sound = isinstance(messages, list) and (tools is None or isinstance(tools, list))
        is_free = choice is None or (isinstance(choice, dict) and choice.get("type") == "auto")
        named = [each for each in _objects(tools) if each.get("name") == NAME or each.get("type") == TYPE]
        is_ours = all(each.get("type") == TYPE for each in named) and (named or mode == "added")
        if not (is_sound and is_free and is_ours):
            return cls(fields, acts=False)
        if thread is not None:
            message = "This request cannot be threaded; send the full conversation without `thread`."
            raise invalid(message, "thread_unsupported_request")
        if named:
            return cls(fields, acts=True)
        text = "[]" if tools is None else fields["tools"][0]
        return cls({**fields, "tools": (_spliced(text, [TOOL]), [*(tools or ()), TOOL])}, acts=True)

    @property
    def is_stream(self) -> bool:
        """True if the client asks for a stream."""
        return self.fields.get("stream", ("", None))[1] is True

    def digest(self, *who: str) -> str:
        """Return what identifies the request of a caller. It may come again without a stream, in another order."""
        texts = {name: text for name, (text, _) in sorted(self.fields.items()) if name != "stream"}
        return hashlib.sha256(json.dumps(who).encode() + _joined(texts)).hexdigest()[:40]

    def memory_ids(self) -> list[str]:
        """Return the ids of the calls that the client sent back."""
        text, messages = self.fields.get("messages", ("", None))
        blocks = [block for each in _objects(messages) for block in _blocks(each)] if "mcptoolu_" in text else []
        return [str(block.get("id")) for block in blocks if _is_use(block)]

    def with_calls(self, calls: Mapping[str, KeptCall]) -> MessagesRequest:
        """Return the request with the calls that the client sent back as calls of the memory tool."""
        if "mcptoolu_" not in self.fields["messages"][0]:
            return self
        messages = restored(self.fields["messages"][1], calls)
        return MessagesRequest({**self.fields, "messages": (_json(messages), messages)}, self.acts)

    def body(self) -> bytes:
        """Return the body for the API. Fields that the gateway does not change keep their bytes."""
        return _joined({name: text for name, (text, _) in self.fields.items()})

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
    text = ",".join(f"{_json(name)}:{value}" for name, value in fields.items())
    return f"{{{text}}}".encode("utf-8", "backslashreplace")  # half a surrogate pair becomes an escape of JSON


def check_batch(fields: Mapping[str, tuple[str, Any]] | None) -> None:
    """Raise `HttpError` 400 if a request of a batch declares the memory tool, whose calls nobody would answer."""
    requests = (fields or {}).get("requests", ("", None))[1]
    for each in _objects(requests):
        params = each.get("params")
        tools = params.get("tools") if isinstance(params, dict) else None
        if any(tool.get("type") == TYPE for tool in _objects(tools)):
            raise invalid(
                "a batch cannot use the memory tool through the gateway, because its calls could not be answered; "
                "send single requests, or leave out the tool"
            )


def _objects(values: object) -> list[JsonObject]:
    """Return the objects in a JSON array."""
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _blocks(message: object) -> list[JsonObject]:
    """Return the blocks of a message of the assistant."""
    is_reply = isinstance(message, dict) and message.get("role") == "assistant"
    return _objects(message.get("content")) if is_reply else []  # type: ignore[attr-defined]


def is_memory(block: JsonObject) -> bool:
    """Return whether a block of the API is a call of the memory tool."""
    return block.get("type") == "tool_use" and block.get("name") == NAME


def _is_use(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "mcp_tool_use" and block.get("server_name") == SERVER


def restored(messages: Sequence[Any], calls: Mapping[str, KeptCall]) -> list[Any]:
    """Return the messages of a conversation as the model saw them. A message that stays is the same object.

    A reply of the client has several turns of the model. A turn ends with the results of its calls. The results of the
    last turn come first in the next message of the user. A call without a record becomes a text that says so.
    """
    found, has_results = list[Any](), False
    for message in messages:
        if any(map(_is_use, _blocks(message))):
            for blocks, results in _turns(message["content"], calls):
                found.append({**message, "content": blocks})
                found += [{"role": "user", "content": results}] if results else []
                has_results = bool(results)
            continue
        if has_results and isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            rest = content if isinstance(content, list) else [{"type": "text", "text": content}]
            found.append({**message, "content": [*found.pop()["content"], *rest]})
        else:
            found.append(message)
        has_results = False
    return found


def _turns(content: Sequence[Any], calls: Mapping[str, KeptCall]) -> Iterator[tuple[list[Any], list[JsonObject]]]:
    """Yield the turns in a reply of the client: the blocks of each, and the results of its memory calls."""
    blocks, results, turn, is_over = list[Any](), dict[str, JsonObject](), "", False
    ours = {str(block.get("id")) for block in content if _is_use(block)}
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "mcp_tool_result" and str(block.get("tool_use_id")) in ours:
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
    return render(call.block["id"], Reply(call.reply, is_error=call.is_error))


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
