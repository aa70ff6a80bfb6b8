"""Scripted Claude of a scenario: it builds each reply from the prompt, plans the faults, and answers without HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx2

from retentive.testing.scripted_claude import Call, Disconnect, Prompt, Raw, ScriptedClaude, Thinking, Turn
from retentive.testing.scripted_claude import Fault as ScriptedFault
from retentive.testing.scripted_claude.http import encoded_events
from retentive.testing.scripted_claude.script import Content

from .scenario import CALLS, Fault, Part, Reply, Scenario

MCP_BETA = "mcp-client-2025-11-20"
MCP_SERVER = {"type": "url", "name": "notes", "url": "https://example.org/mcp"}
MCP_TOOLS = {"type": "mcp_toolset", "mcp_server_name": "notes"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
MCP = "mcptoolu_"
URL = "https://example.org/"
FOUND = {"type": "web_search_result", "url": URL, "title": "A page", "encrypted_content": "abc", "page_age": None}
CITATION = {
    "type": "web_search_result_location",
    "url": URL,
    "title": "A page",
    "encrypted_index": "def",
    "cited_text": "a part of it",
}


class Play:
    """Position in the replies of a scenario. `runnable` are the numbers of the calls in replies that run tools.

    A script cannot contain an empty reply. `Wire` sends one for a reply with the block `EMPTY`.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._replies = scenario.replies
        self._next = 0
        self._attempts = 0
        self._current: Fault | None = None
        self._serving = 0
        self.last_stop = ""  # stop reason of the last reply that arrived
        self.runnable: list[int] = []
        self.rejections: list[str] = []
        self.claude = ScriptedClaude(self.turn, faults=self.fault, new_suffix=self._suffix)

    @property
    def is_over(self) -> bool:
        return self._next >= len(self._replies)

    def fault(self, _number: int) -> ScriptedFault | None:
        """Fault of the next request."""
        faults = () if self.is_over else self._replies[self._next].faults
        self._current = faults[self._attempts] if self._attempts < len(faults) else None
        self._attempts += 1
        return self._current

    def turn(self, prompt: Prompt) -> Turn:
        """Next turn for a prompt. It advances if the reply arrives."""
        reply = Reply((Part("text", 999),), "end_turn") if self.is_over else self._replies[self._next]
        if reply.stop_reason == "pause_turn" and not reply.can_pause:
            reply = replace(reply, stop_reason="end_turn")
        self._serving = self._next
        open_calls = _open_server_calls(prompt)
        blocks = [Raw(_server_result(use_id, is_error=False)) for use_id in open_calls]
        parts = [part for part in reply.parts if not (open_calls and part.kind == "compaction")]
        content = [*blocks, *(each for part in parts for each in _content(part))]
        if self._current is None:
            self._next, self._attempts = self._next + 1, 0
            self.last_stop = reply.stop_reason
            if reply.runs:
                self.runnable += [part.number for part in parts if part.kind in CALLS]
        return Turn(tuple(content or [Raw(EMPTY)]), reply.stop_reason)

    def _suffix(self) -> str:
        return f"{self._serving}"


EMPTY = {"type": "text", "text": "no content"}


class Wire(httpx2.MockTransport):
    """Transport that passes requests to the play without HTTP, and drops connections as planned."""

    play: Play

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.requests = 0

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests += 1
        answered = self.play.claude.answer(dict(request.headers), request.read())
        reply = dict(answered.reply)
        if answered.status == 0:
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
        if answered.status != 200:
            if answered.fault is None:
                self.play.rejections.append(str(reply["error"]))
            return httpx2.Response(answered.status, json=reply)
        if reply["content"] == [EMPTY]:
            answered = replace(answered, reply={**reply, "content": []})
        fault, kind = answered.fault, "text/event-stream" if answered.is_streamed else "application/json"
        data = json.dumps(dict(answered.reply)).encode()
        pieces = encoded_events(answered.reply, fault) if answered.is_streamed else [data]
        if isinstance(fault, Disconnect):
            pieces = pieces[: fault.after_events] if answered.is_streamed else [data[: len(data) // 2]]
        body = _Body(pieces, cut=isinstance(fault, Disconnect))
        return httpx2.Response(200, headers={"content-type": kind}, stream=body)


class _Body(httpx2.SyncByteStream):
    """Body of a response. The connection is lost after it if `cut` is true."""

    def __init__(self, pieces: list[bytes], *, cut: bool) -> None:
        self._pieces, self._cut = pieces, cut

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._cut:
            raise httpx2.RemoteProtocolError("peer closed connection without sending complete message body")


def _open_server_calls(prompt: Prompt) -> list[str]:
    blocks = [block for message in prompt.messages for block in message.blocks]
    found = {block.get("tool_use_id") for block in blocks}
    uses = [str(block["id"]) for block in blocks if block.get("type") in ("server_tool_use", "mcp_tool_use")]
    return [use_id for use_id in uses if use_id not in found]


def _content(part: Part) -> list[Content]:
    number = part.number
    match part.kind:
        case "text":
            return [f"Text {number}, with some words: Grüße."]
        case "blank":
            return [" \n"]
        case "cited":
            return [Raw({"type": "text", "text": f"A quotation {number}.", "citations": [CITATION]})]
        case "thinking":
            return [Thinking(f"I think of {number}.")]
        case "redacted thinking":
            return [Raw({"type": "redacted_thinking", "data": f"data{number}"})]
        case "compaction":
            return [Raw({"type": "compaction", "content": f"Summary {number}.", "encrypted_content": "ghi"})]
        case "failed compaction":
            return [Raw({"type": "compaction", "content": None, "encrypted_content": None})]
        case kind if kind.startswith("server"):
            call: dict[str, Any] = {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "web_search"}
            if "mcp" in kind:
                call = {"type": "mcp_tool_use", "id": f"{MCP}{number}", "name": "find", "server_name": "notes"}
            result = _server_result(call["id"], is_error=kind.endswith("error"))
            call = {**call, "input": {"query": f"query {number}"}}
            return [Raw(call), Raw(result)] if part.done else [Raw(call)]
    return [_call(part)]


def _call(part: Part) -> Call:
    path = f"/memories/{part.number}.md"
    match part.kind:
        case "create":
            return Call({"command": "create", "path": path, "file_text": f"Note {part.number}\n"})
        case "view":
            return Call({"command": "view", "path": "/memories", "n": part.number})
        case "invalid":
            return Call({"command": "str_replace", "path": path, "n": part.number})
    return Call({"n": part.number}, name=part.kind)


def _server_result(use_id: str, *, is_error: bool) -> dict[str, Any]:
    if use_id.startswith(MCP):
        content = [{"type": "text", "text": f"Found by {use_id}."}]
        return {"type": "mcp_tool_result", "tool_use_id": use_id, "is_error": is_error, "content": content}
    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    return {"type": "web_search_tool_result", "tool_use_id": use_id, "content": error if is_error else [FOUND]}
