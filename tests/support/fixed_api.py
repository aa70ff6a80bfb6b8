"""API with fixed responses that the scripted Claude cannot produce, such as lone surrogates and malformed messages."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from anthropic import Anthropic, AsyncAnthropic

VIEW = {"command": "view", "path": "/memories"}


def message(content: list[dict[str, Any]], stop_reason: str = "end_turn") -> dict[str, Any]:
    """A complete response."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    known = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "stop_sequence": None}
    return {**known, "content": content, "stop_reason": stop_reason, "usage": usage}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def use(given: object, *, name: str = "memory", call_id: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def streamed(response: dict[str, Any]) -> str:
    """The stream of a response without calls. Texts arrive in pieces, and edits in the last delta."""
    content, edits = response["content"], response.get("context_management")
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {**response, "content": [], "stop_reason": None, "context_management": None},
        }
    ]
    for index, block in enumerate(content):
        is_text = block["type"] == "text"
        start = {"type": "text", "text": ""} if is_text else block
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        for word in block["text"].split(" ") if is_text else ():
            delta = {"type": "text_delta", "text": f"{word} "}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": response["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": response["usage"], "context_management": edits})
    events.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


class Api:
    """Server that answers each request with the next of `answers`, and repeats the last one.

    `sent` records the requests, and `headers` their headers.
    """

    def __init__(self, *answers: object) -> None:
        self.sent: list[dict[str, Any]] = []
        self.headers: list[httpx2.Headers] = []
        self._answers = answers

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(json.loads(request.content))
        self.headers.append(request.headers)
        answer = self._answers[min(len(self.sent), len(self._answers)) - 1]
        if isinstance(answer, httpx2.Response):
            return answer
        if isinstance(answer, str):
            return httpx2.Response(200, text=answer, headers={"content-type": "text/event-stream"})
        return httpx2.Response(200, content=json.dumps(answer), headers={"content-type": "application/json"})

    def client(self) -> Anthropic:
        http = httpx2.Client(transport=httpx2.MockTransport(self))
        return Anthropic(api_key="none", max_retries=0, http_client=http)

    def async_client(self) -> AsyncAnthropic:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return AsyncAnthropic(api_key="none", max_retries=0, http_client=http)
