"""Validation of the content of a conversation: user messages, earlier conversations, and responses of the API.

A conversation must always be valid for the next request. The API rejects blank text blocks and lone surrogates, and it
would reject every later request that contains them. If content from the application contains them, `InvalidInput` is
raised. If a response contains them, it is repaired.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, cast

from retentive.agent.events import AgentError, TokenUsage
from retentive.errors import InvalidInput
from retentive.integrations.messages import attribute
from retentive.values.text import plain_name

EMPTY_ERROR = "Error: The tool failed without a message."
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")

MessageDict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Response:
    """Parsed response of the API: its content blocks as JSON without lone surrogates, and its stop reason.

    `raw` is the SDK's response object, which also has the usage and the applied context edits. `inputs` maps the id of
    each tool call to the input that the model sent.
    """

    raw: object
    blocks: tuple[MessageDict, ...]
    stop_reason: str
    inputs: Mapping[str, object]

    @property
    def calls(self) -> tuple[MessageDict, ...]:
        """Tool calls that the client must run. The API runs calls of server tools itself, so they are not included."""
        return tuple(block for block in self.blocks if block["type"] == "tool_use")

    @property
    def text(self) -> str:
        """The texts of the text blocks, joined by blank lines."""
        return "\n\n".join(block["text"] for block in self.blocks if block["type"] == "text")

    @property
    def content(self) -> list[MessageDict]:
        """All blocks except blank text blocks. Models sometimes write blank text blocks, but the API rejects them."""
        return [block for block in self.blocks if block["type"] != "text" or block["text"].strip()]


def parse_response(response: object) -> Response:
    """Parse a response of the SDK. Raises `AgentError` if it is malformed."""
    content, stop_reason = attribute(response, "content"), attribute(response, "stop_reason")
    if not isinstance(content, list | tuple) or not isinstance(stop_reason, str):
        raise malformed()
    sent = [to_json(block) for block in content]
    blocks = tuple(replace_surrogates(block) for block in sent)
    if not all(_is_valid_block(block) for block in blocks):
        raise malformed()
    return Response(response, blocks, stop_reason, {each["id"]: each.get("input") for each in sent if _is_call(each)})


def malformed() -> AgentError:
    """Return the error for a response that is no message of the API."""
    text = "the API sent a malformed response; call run() without a message to retry"
    return AgentError(text, "api_failed", retryable=True)


def user_message(message: object) -> MessageDict:
    """Build a user message from a string or content blocks.

    Raises `InvalidInput` for content that the API would reject.
    """
    if isinstance(message, str):
        content: list[Any] = [{"type": "text", "text": message}]
    elif isinstance(message, Sequence) and not isinstance(message, bytes | bytearray):
        content = [to_json(block) for block in message]
    else:
        raise InvalidInput("`message` must be a string or a list of content blocks")
    if not content or message == "":
        raise InvalidInput("`message` must not be empty; call run() without a message to continue the conversation")
    _check_content(content, "message")
    return {"role": "user", "content": content}


def parse_saved(saved: object) -> tuple[list[MessageDict], TokenUsage, str]:
    """Check a saved conversation or a list of messages. Raises `InvalidInput`.

    Returns three values: a copy of the messages, the usage of the conversation, and the stop reason of the last
    response. For a list of messages, the usage is zero and the stop reason is "end_turn".
    """
    if not isinstance(saved, Mapping):
        return parse_messages(saved), TokenUsage(), "end_turn"
    given = saved.get("used")
    counts: dict[str, Any] = (
        {each.name: given.get(each.name) for each in fields(TokenUsage)} if isinstance(given, Mapping) else {}
    )
    if not counts or "messages" not in saved:
        raise InvalidInput("`messages` must be a list of messages, or the dict that `agent.saved()` returned")
    for name, count in counts.items():
        check_at_least(0, f"{name} of a saved conversation", count)
    check_text("stop_reason of a saved conversation", stop_reason := saved.get("stop_reason"))
    return parse_messages(saved["messages"]), TokenUsage(**counts), str(stop_reason)


def saved_name(saved: object, name: str) -> str | None:
    """Return the actor or the run of a saved conversation. None if there is none. Raises `InvalidInput`."""
    found = saved.get(name) if isinstance(saved, Mapping) else None
    return None if found is None else plain_name(f"{name} of a saved conversation", found)


def parse_messages(messages: object) -> list[MessageDict]:
    """Check the messages of an earlier conversation and return a copy. Raises `InvalidInput`."""
    checked = check_list(messages, "`messages` must be a list of messages, such as `messages` of an earlier agent")
    for n, message in enumerate(checked):
        name = f"messages[{n}]"
        if not isinstance(message, Mapping) or message.get("role") not in ("user", "assistant", "system"):
            raise InvalidInput(f"{name} must be a dict with `content` and `role`; `role` must be user or assistant")
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list | tuple) or not content:
            raise InvalidInput(f"{name}: `content` must be a non-empty string or list of content blocks")
        _check_content([to_json(block) for block in content], name)
    return [dict(message) for message in checked]


def unanswered_calls(messages: Sequence[MessageDict]) -> list[MessageDict]:
    """Return, in order, those tool calls of the newest response that have no result yet."""
    at = newest_response(messages)
    if at is None:
        return []
    calls = [block for block in blocks_of(messages[at]) if _is_call(block)]
    answered = {block.get("tool_use_id") for message in messages[at + 1 :] for block in blocks_of(message)}
    return [call for call in calls if call["id"] not in answered]


def add_result(messages: list[MessageDict], result: MessageDict) -> None:
    """Add the result of a tool call to a conversation.

    The API requires that all results for a response are in one message, directly after the response and before any
    other content.
    """
    at = newest_response(messages)
    assert at is not None, "no response called a tool"
    after = messages[at + 1] if at + 1 < len(messages) else {}
    blocks = blocks_of(after)
    count = sum(block.get("type") == "tool_result" for block in blocks)
    if count:
        messages[at + 1] = {**after, "content": [*blocks[:count], result, *blocks[count:]]}
    else:
        messages.insert(at + 1, {"role": "user", "content": [result]})


def tool_result(tool_use_id: str, content: object, *, is_error: bool = False) -> MessageDict:
    """Build a tool_result block that the API accepts.

    Blank text blocks are left out. If an error result has no text, a default text is added.
    """
    if content is None or isinstance(content, str):
        kept: Any = replace_surrogates(content or "")
    else:
        given = [replace_surrogates(to_json(block)) for block in cast("Iterable[object]", content)]
        kept = [block for block in given if not is_blank(block)]
    if is_error and (not kept or (isinstance(kept, str) and not kept.strip())):
        kept = EMPTY_ERROR
    result: MessageDict = {"type": "tool_result", "tool_use_id": tool_use_id, "content": kept}
    return result | {"is_error": True} if is_error else result


def newest_response(messages: Sequence[MessageDict]) -> int | None:
    """Return the position of the newest response of the model, or None."""
    return next((at for at in range(len(messages) - 1, -1, -1) if messages[at].get("role") == "assistant"), None)


def without_server_calls(blocks: Sequence[MessageDict], later: Iterable[Mapping[str, Any]] = ()) -> list[MessageDict]:
    """Return `blocks` without those calls of server tools that have no result.

    The result of a call can be in `blocks` or in the messages `later`. If `blocks` contains all results, `later` is not
    read.
    """
    open_ids = {block.get("id") for block in blocks if block.get("type") in SERVER_CALLS}
    for each in chain([blocks], map(blocks_of, later)):
        if not open_ids:
            break
        open_ids -= {block.get("tool_use_id") for block in each}
    return [block for block in blocks if block.get("type") not in SERVER_CALLS or block.get("id") not in open_ids]


def blocks_of(message: Mapping[str, Any]) -> list[MessageDict]:
    """Return the content blocks of a message as dicts."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [to_json(block) for block in content] if isinstance(content, list | tuple) else []


def is_blank(block: object) -> bool:
    """Return True if the block is a text block that is empty or only whitespace."""
    return isinstance(block, Mapping) and block.get("type") == "text" and not str(block.get("text") or "").strip()


def _is_call(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("id"), str)


def to_json(block: object) -> Any:
    """Convert a content block to a JSON dict that can be sent to the API again."""
    dump = getattr(block, "model_dump", None)
    if dump is None:
        return block
    # As the SDK does, leave out fields that the API did not set.
    excluded = getattr(block, "__api_exclude__", None)
    return dump(mode="json", by_alias=True, exclude_unset=True, exclude=excluded, warnings=False)


def _is_valid_block(block: object) -> bool:
    if not isinstance(block, dict):
        return False
    required = {"text": ("type", "text"), "tool_use": ("type", "id", "name")}.get(str(block.get("type")), ("type",))
    return all(isinstance(block.get(name), str) for name in required)


def _check_content(content: Sequence[Any], name: str) -> None:
    for block in content:
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            raise InvalidInput(f"{name}: each content block must be a dict with a `type`")
        if block["type"] == "text" and not (isinstance(block.get("text"), str) and block["text"].strip()):
            raise InvalidInput(f"{name}: a text block must not be blank, because the API rejects blank text")
    try:
        serialized = json.dumps(list(content), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(f"{name} cannot be serialized as JSON") from None
    check_text(name, serialized)


def check_text(name: str, text: object) -> None:
    """Raise `InvalidInput` unless `text` is a string without lone surrogates. The message uses `name` for the text."""
    if not isinstance(text, str):
        raise InvalidInput(f"{name} must be a string")
    if text != replace_surrogates(text):
        raise InvalidInput(f"{name} contains a lone surrogate; pass valid Unicode text")


def check_list(value: object, message: str) -> list[Any]:
    """Return the items of a list or another iterable.

    Raises `InvalidInput` with the text `message` if `value` is a string or a dict, or if it is not iterable.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidInput(message)
    return list(value)


def check_at_least(minimum: int, name: str, value: object) -> None:
    """Raise `InvalidInput` unless `value` is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InvalidInput(f"{name} must be an integer of at least {minimum:,}")


def replace_surrogates(value: Any) -> Any:
    """Return a copy of a JSON value in which no string contains a surrogate.

    Lone surrogates become U+FFFD. Pairs of surrogates become the character that they encode.
    """
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {replace_surrogates(name): replace_surrogates(item) for name, item in value.items()}
    return [replace_surrogates(item) for item in value] if isinstance(value, list | tuple) else value
