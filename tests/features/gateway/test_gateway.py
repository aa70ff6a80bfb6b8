"""What the gateway does with a request: what it adds, passes through, keeps, limits and refuses."""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

import retentive
from retentive.testing.scripted_claude import Call, Check, ErrorResponse, Prompt, Raw, Script, Thinking, Turn
from retentive.wire.people import GroupCreation

from .gateways import BYE, HELLO, MODEL, NOTES, TOOL, Place, after, gateway, results, said

CREATE = Call({"command": "create", "path": NOTES, "file_text": "tea\n"}, Check(contains=("created",)))
VIEW = Call({"command": "view", "path": NOTES}, Check(contains=("tea",)))
OWN: Any = {"name": "search", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
SECRET = "sk-ant-api03-" + "a1B2" * 23 + "AA"


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


def send(
    place: Place, body: Any, path: str = "/v1/messages", method: str = "POST", **headers: str
) -> tuple[HTTPResponse, bytes]:
    """Send a request as a program of any language, and return the response."""
    parts = urlsplit(place.url)
    connection = HTTPConnection("127.0.0.1", parts.port, timeout=30)
    given = {"x_retentive_key": place.key, "x_api_key": "sk", "anthropic_version": "2023-06-01", **headers}
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    with closing(connection):
        sent = {name.replace("_", "-"): value for name, value in given.items() if value}
        connection.request(method, parts.path + path, data, sent)
        response = connection.getresponse()
        return response, response.read()


def asks(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 99, "messages": list(messages), **more}


def seen(place: Place, number: int = -1) -> Any:
    return place.claude.requests[number].body


@pytest.mark.parametrize("stream", [False, True])
def test_the_model_sees_its_own_view_again(at: str, *, stream: bool) -> None:
    """Thinking with its signature, parallel calls, and turns that stay apart. The scripted Claude checks them."""
    look = Turn((Thinking("Is there something?"), "I look. ", CREATE, VIEW))
    script = Script((look, Turn((Thinking("Once more."), VIEW)), "Done.", "Bye."))
    with gateway(script, at) as place:
        first = place.ask([HELLO], stream=stream)
        types = ["thinking", "text", "mcp_tool_use", "mcp_tool_use", "mcp_tool_result", "mcp_tool_result"]
        assert [block.type for block in first.content] == [
            *types,
            "thinking",
            "mcp_tool_use",
            "mcp_tool_result",
            "text",
        ]
        assert all(block.id.startswith("mcptoolu_") for block in first.content if block.type == "mcp_tool_use")
        during = seen(place)["messages"]
        assert said(place.ask(after(first), stream=stream)) == "Bye."
        assert seen(place)["messages"][: len(during)] == during
        place.claude.verify()


def test_the_added_tool_is_the_last_and_sets_no_cache_breakpoint(at: str) -> None:
    with gateway("Hi.", at, mode="added") as place:
        body = asks(HELLO, tools=[OWN], system=[{"type": "text", "text": "Be brief."}], tool_choice={"type": "auto"})
        response, _ = send(place, body)
        assert response.status == 200
        assert seen(place) == {**body, "tools": [OWN, TOOL]}


CUSTOM = {"name": "memory", "input_schema": {"type": "object"}}
UNTOUCHED: dict[str, tuple[str, dict[str, Any]]] = {
    "declared, and no tool": ("declared", {}),
    "forced": ("added", {"tools": [OWN], "tool_choice": {"type": "any"}}),
    "forbidden": ("added", {"tools": [OWN], "tool_choice": {"type": "none"}}),
    "own memory tool": ("added", {"tools": [CUSTOM]}),
    "declared, and an own memory tool": ("declared", {"tools": [CUSTOM]}),
}


@pytest.mark.parametrize("case", UNTOUCHED)
def test_other_requests_pass_through_byte_for_byte(at: str, case: str) -> None:
    mode, more = UNTOUCHED[case]
    with gateway("Hi.", at, mode=mode) as place:
        got = list[bytes]()
        answer = place.claude.answer
        place.claude._site.answer = lambda headers, data: (got.append(data), answer(headers, data))[1]  # type: ignore[func-returns-value]
        data = json.dumps(asks(HELLO, **more), indent=3).encode()
        response, body = send(place, data)
        assert (response.status, got) == (200, [data])
        assert json.loads(body)["content"] == [{"type": "text", "text": "Hi."}]
        assert response.headers["request-id"].startswith("req_scripted_")


def test_other_routes_errors_and_headers_pass_through(at: str) -> None:
    with gateway("Hi.", at, faults={1: ErrorResponse(429, retry_after=7)}) as place:
        named = {"connection": "x-hop", "x_hop": "1"}  # a header of this connection
        response, body = send(place, asks(HELLO, tools=[TOOL]), anthropic_beta="context-management-2025-06-27", **named)
        assert "x-hop" not in place.claude.requests[0].headers
        assert (response.status, response.headers["retry-after"]) == (429, "7")
        assert json.loads(body)["request_id"] == response.headers["request-id"]
        assert place.claude.requests[0].headers["anthropic-beta"] == "context-management-2025-06-27"
        for method, path, status in (
            ("POST", "/v1/messages/count_tokens", 404),
            ("GET", "/v1/models", 405),
            ("HEAD", "/", 405),
        ):
            response, _ = send(place, asks(HELLO) if method == "POST" else None, path, method)
            assert (response.status, "x-scripted-claude" in response.headers) == (status, True)


def test_a_batch_with_the_memory_tool_is_refused(at: str) -> None:
    with gateway("Hi.", at) as place:
        batch = {"requests": [{"custom_id": "a", "params": asks(HELLO, tools=[TOOL])}]}
        response, body = send(place, batch, "/v1/messages/batches")
        assert (response.status, "batch" in json.loads(body)["error"]["message"]) == (400, True)
        batch["requests"][0]["params"]["tools"] = [OWN]  # type: ignore[index]
        response, _ = send(place, batch, "/v1/messages/batches")
        assert (response.status, "x-scripted-claude" in response.headers) == (404, True)


@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}])
def test_a_thread_is_refused_with_the_error_after_which_the_sdk_goes_on(at: str, thread: Any) -> None:
    with gateway("Hi.", at, mode="added") as place:
        response, body = send(place, asks(HELLO, thread=thread))
        assert (response.status, json.loads(body)["error"]["details"]["error_code"]) == (
            400,
            "thread_unsupported_request",
        )


@pytest.mark.parametrize("tools", [[TOOL], [OWN, TOOL]])
@pytest.mark.parametrize("stream", [False, True])
def test_after_the_last_round_there_is_a_turn_without_the_tool(at: str, tools: Any, *, stream: bool) -> None:
    def model(prompt: Prompt) -> Any:
        return Call({"command": "view", "path": "/memories"}) if "memory" in prompt.tool_names else "Enough."

    with gateway(model, at, max_rounds=3) as place:
        message = place.ask([HELLO], stream=stream, tools=tools)
        assert (said(message), message.stop_reason) == ("Enough.", "end_turn")
        assert len(place.claude.requests) == 4
        usage = [(exchange.reply["usage"]["input_tokens"]) for exchange in place.claude.requests]  # type: ignore[index]
        assert message.usage.input_tokens == usage[-1]
        if not stream:  # the stream helper of the SDK without beta drops unknown fields
            assert [each["input_tokens"] for each in message.usage.iterations] == usage


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "pause_turn"])
def test_a_call_in_a_reply_that_was_cut_is_answered_but_not_run(at: str, reason: str, *, stream: bool) -> None:
    cut = Turn((Call({"command": "create", "path": NOTES, "file_text": "x"}),), stop_reason=reason)
    with gateway(Script((cut, "Go on.")), at) as place:
        message = place.ask([HELLO], stream=stream)
        assert (message.stop_reason, message.content[-1].is_error) == (reason, True)
        assert place.store.history.log() == []
        assert said(place.ask(after(message), stream=stream)) == "Go on."


def test_cache_breakpoints_of_the_client_stay(at: str) -> None:
    with gateway(Script((Turn((CREATE,)), "Done.", "Bye.")), at) as place:
        content = [block.model_dump(exclude_none=True) for block in place.ask([HELLO]).content]
        for block in content[:2]:
            block["cache_control"] = {"type": "ephemeral"}
        place.ask([HELLO, {"role": "assistant", "content": content}, BYE])
        blocks = [block for message in seen(place)["messages"][1:] for block in message["content"]]
        assert [block["type"] for block in blocks if "cache_control" in block] == ["tool_use", "tool_result"]


def test_server_tools_pass_through(at: str) -> None:
    search = Raw({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tea"}})
    found = Raw({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []})
    with gateway(Script((Turn((search, found, CREATE)), "Done.", "Bye.")), at) as place:
        first = place.ask([HELLO], stream=True)
        assert said(place.ask(after(first))) == "Bye."


def test_a_failing_store_is_an_error_result(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def model(prompt: Prompt) -> Any:
        return f"It said: {results(prompt)[0]}" if prompt.calls else CREATE

    with gateway(model, at) as place:
        place.ask([HELLO])  # the key is known now

        def fail(*_: Any, **__: Any) -> Any:
            raise retentive.errors.Unavailable("the disk is gone")

        monkeypatch.setattr(place.api.place.opened.backend, "write", fail)
        monkeypatch.setattr(place.api.place.opened.backend, "read", fail)
        response, body = send(place, asks(BYE, tools=[TOOL]))
        assert (response.status, response.headers["x-retentive-memory"]) == (200, "unavailable")
        assert "It said: Error" in json.loads(body)["content"][-1]["text"]


def conversation(place: Place) -> list[Any]:
    return after(place.ask([HELLO]))


def test_records_go_with_an_erasure_and_after_thirty_days(at: str) -> None:
    def model(prompt: Prompt) -> Any:
        if prompt.messages[-1].text == "hello":
            return CREATE
        return str(len([call for call in prompt.calls if call.input.get("file_text") == "tea\n"]))

    with gateway(model, at) as place:
        messages = conversation(place)
        assert said(place.ask(messages)) == "1"
        for days, count in ((29, "1"), (31, "1")):  # the first use starts the time again
            later = (datetime.now(UTC) + timedelta(days=days)).timestamp()
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(time, "time", lambda later=later: later)
                assert said(place.ask([*messages, {"role": "user", "content": str(days)}])) == count
        place.store.history.erase(NOTES)
        assert said(place.ask(messages)) == "0"
        assert "record was erased" in json.dumps(seen(place))


def test_a_call_that_is_erased_while_it_is_read_stays_erased(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def model(prompt: Prompt) -> Any:
        return CREATE if prompt.messages[-1].text == "hello" and not prompt.calls else "Done."

    with gateway(model, at) as place:
        messages = conversation(place)
        later, backend = time.time() + 2 * 86_400, place.api.place.opened.backend
        monkeypatch.setattr(time, "time", lambda: later)
        write = backend.write

        def erase_before(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(backend, "write", write)
            place.store.history.erase(NOTES)
            return write(*arguments, **options)

        monkeypatch.setattr(backend, "write", erase_before)
        place.ask(messages)
        assert kept_calls(place) == []


def test_a_call_that_is_erased_before_it_is_kept_stays_erased(at: str) -> None:
    places = list[Place]()

    def erase(*_: object) -> None:
        places[0].store.history.erase(NOTES)

    with gateway(Script((Turn((CREATE,)), "Done.")), at, on_call=erase) as place:
        places.append(place)
        assert said(place.ask([HELLO])) == "Done."
        assert kept_calls(place) == []


def kept_calls(place: Place) -> list[tuple[str, str]]:
    return place.api.place.opened.backend.read(place.store.id, lambda view: list(view.records("gateway.call")))


def test_old_records_are_removed_by_maintenance(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with gateway(Script((Turn((CREATE,)), "Done.")), f"sqlite:///{path}") as place:
        conversation(place)
    now = time.time()
    kinds = ("gateway.call", "gateway.rounds", "gateway.until")
    for days, gone in ((1, {"gateway.rounds"}), (32, set(kinds))):
        with retentive.open(f"sqlite:///{path}", clock=partial(float, now + days * 86_400), sweep=False) as opened:
            store = opened.store("team")
            store.sweep(accept_clock=True)
            left = opened.backend.read(store.id, lambda view: {kind for kind in kinds if list(view.records(kind))})
            assert left == set(kinds) - gone


def test_no_secret_and_no_text_of_an_encrypted_store_is_kept(tmp_path: Path) -> None:
    def model(prompt: Prompt) -> Any:
        if prompt.calls:
            return f"Saved {prompt.calls[0].input['file_text']}"
        return f"The key {SECRET} is noted. ", Call(
            {"command": "create", "path": NOTES, "file_text": f"cocoa {SECRET}\n"}
        )

    with gateway(model, f"sqlite:///{tmp_path}/memory.db") as place:
        messages = conversation(place)
        assert SECRET not in said(place.ask(messages))
    found = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"cocoa" in found
    assert SECRET.encode() not in found


def test_what_a_key_may(at: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with gateway("Hi.", at) as place:
        keys, body = place.api.place.keys, asks(HELLO, tools=[TOOL])
        reader, admin = (keys.create("k", scopes=(scope,)).text for scope in ("read", "admin"))
        other = keys.create("k", scopes=("gateway",), stores=("others-*",)).text
        for key, status in (("", 401), ("rtv_none", 401), (reader, 403), (other, 404), (admin, 200)):
            assert send(place, body, x_retentive_key=key)[0].status == status
        for key, status in ((place.key, 200), (admin, 403), (reader, 403)):
            assert send(place, body, f"/{key}/v1/messages", x_retentive_key="")[0].status == status
        for path in ("/../../v1/messages", "/%2E%2e/%2e./v1/messages"):
            response, _ = send(place, body, path)
            assert (response.status, "x-scripted-claude" in response.headers) == (404, False)
        assert not [line for line in caplog.text.splitlines() if place.key in line or "hello" in line]
        assert place.key.encode() not in place.api.get("/metrics").body
    limited = json.dumps([dict(each.headers) for each in place.claude.requests])
    assert not [name for name in ("x-retentive", place.key, admin) if name in limited]


def test_a_key_for_some_paths_gives_the_model_only_these(at: str) -> None:
    """The groups of its principal do not widen them: their roles are not for the gateway."""

    def model(prompt: Prompt) -> Any:
        view, create = Call({"command": "view", "path": "/memories"}), Call({**CREATE.input})
        return "\n".join(results(prompt)) if prompt.calls else (view, create)

    with gateway(model, at) as place:
        place.store.create("/memories/team/a.md", "seen\n")
        place.store.create("/memories/b.md", "hidden\n")
        owner: dict[str, Any] = {"scopes": ("gateway",), "paths": ("/memories/team/**",), "principal": "user:ann"}
        place.key = place.api.place.keys.create("k", **owner).text
        team = GroupCreation.read({"name": "team", "members": ["user:ann"], "grants": [{"role": "write"}]})
        place.api.place.keys.groups.create("wrkspc_default", team, by="user:root", integration="cli")
        first = place.ask([HELLO])
        said_by_model = said(first)
        place.key = place.api.place.keys.create("k", **owner | {"paths": ("/memories/else/**",)}).text
        place.ask(after(first))
        assert str(seen(place)).count("record was erased") == 2  # the view may show what this key may not see
        assert "team" in said_by_model
        assert "b.md" not in said_by_model
        assert NOTES not in [version.path for version in place.store.history.log()]


def test_the_actor_is_the_session_or_the_principal(at: str) -> None:
    def model(prompt: Prompt) -> Any:
        path = f"/memories/{prompt.opening}"
        return "ok" if prompt.calls else Call({"command": "create", "path": path, "file_text": "x"})

    with gateway(model, at) as place:
        place.key = place.api.place.keys.create("k", scopes=("gateway",), principal="user:ann").text
        session = {"x_claude_code_session_id": "s1"}
        for name, headers in (("a", {}), ("b", session), ("c", {**session, "x_claude_code_agent_id": "a1"})):
            response, _ = send(place, asks({"role": "user", "content": name}, tools=[TOOL]), **headers)
            assert response.status == 200
        versions = place.store.history.log()
        assert [str(each.actor) for each in versions] == ["session:s1/a1", "session:s1", "user:ann"]
        assert {each.provenance.source for each in versions} == {"gateway"}


@contextmanager
def compressing(url: str, has_read: Event, waited: list[bool]) -> Iterator[str]:
    """A server before the API that compresses as asked. After the first event, it waits until the client has it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            parts, body = urlsplit(url), self.rfile.read(int(self.headers["content-length"]))
            with closing(HTTPConnection("127.0.0.1", parts.port, timeout=30)) as connection:
                connection.request("POST", self.path, body, dict(self.headers.items()))
                response = connection.getresponse()
                data = response.read()
            is_gzip = "gzip" in self.headers.get("accept-encoding", "")
            self.send_response(response.status)
            self.send_header("content-type", response.headers["content-type"])
            if is_gzip:
                self.send_header("content-encoding", "gzip")
            self.end_headers()
            packer = zlib.compressobj(wbits=31)
            for piece in data.split(b"\n\n"):
                self.wfile.write(
                    packer.compress(piece + b"\n\n") + packer.flush(zlib.Z_SYNC_FLUSH) if is_gzip else piece + b"\n\n"
                )
                self.wfile.flush()
                waited.append("event-stream" not in response.headers["content-type"] or has_read.wait(20))
            self.wfile.write(packer.flush() if is_gzip else b"")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.parametrize("asked", ["gzip", "br, gzip;q=0.5", "*", "gzip;q=0", "br", "identity"])
@pytest.mark.parametrize("stream", [False, True])
def test_gzip_as_asked_and_each_event_at_once(at: str, asked: str, *, stream: bool) -> None:
    has_read, waited = Event(), list[bool]()
    through = partial(compressing, has_read=has_read, waited=waited)
    with gateway(Script((Turn((CREATE,)), "Done.")), at, through=through) as place:
        parts, body = urlsplit(place.url), json.dumps(asks(HELLO, tools=[TOOL], stream=stream))
        headers = {"x-retentive-key": place.key, "anthropic-version": "2023-06-01", "accept-encoding": asked}
        with closing(HTTPConnection("127.0.0.1", parts.port, timeout=30)) as connection:
            connection.request("POST", f"{parts.path}/v1/messages", body, {**headers, "x-api-key": "sk"})
            response = connection.getresponse()
            is_gzip = response.headers.get("content-encoding") == "gzip"
            assert is_gzip == (asked in {"gzip", "br, gzip;q=0.5", "*"})
            unpacker, text = zlib.decompressobj(wbits=31), b""
            while piece := response.read1():
                text += unpacker.decompress(piece) if is_gzip else piece
                has_read.set()
        assert b"Done." in text
        assert unpacker.eof == is_gzip
        assert all(waited)


@pytest.mark.parametrize("stream", [False, True])
def test_half_a_surrogate_pair_fails_no_conversation(at: str, *, stream: bool) -> None:
    odd = Call(
        {"command": "create", "path": NOTES, "file_text": "\ud800 tea"},
        Check(contains=("cannot be stored",), is_error=True),
    )
    with gateway(Script((Turn((odd,)), "Done.", "Bye.")), at) as place:
        first = place.ask([HELLO], stream=stream)
        assert said(place.ask(after(first), stream=stream)) == "Bye."
        place.claude.verify()


USE: Any = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": VIEW.input}
MALFORMED: dict[str, dict[str, Any]] = {
    "no blocks": {"content": None},
    "a text as a block": {"content": ["x"]},
    "usage": {"content": [USE], "usage": [1]},
    "a call without id": {"content": [{**USE, "id": 5}]},
    "a call without input": {"content": [{name: value for name, value in USE.items() if name != "input"}]},
    "iterations": {"content": [USE], "usage": {"iterations": 5}},
    "a container": {"content": [USE], "container": "x"},
}


@pytest.mark.parametrize(
    ("case", "stream"), [*((case, False) for case in MALFORMED), *((case, True) for case in list(MALFORMED)[3:])]
)
def test_a_malformed_message_of_the_api_is_an_error_and_runs_no_call(at: str, case: str, *, stream: bool) -> None:
    with gateway("Hi.", at) as place:
        answer = place.claude.answer

        def malformed(headers: Any, data: bytes) -> Any:
            exchange = answer(headers, data)
            return replace(exchange, reply={**exchange.reply, "stop_reason": "tool_use", **MALFORMED[case]})

        place.claude._site.answer = malformed
        response, body = send(place, asks(HELLO, tools=[TOOL], stream=stream))
        assert b"the connection to the API failed" in body
        assert b"mcp_tool_result" not in body
        assert response.status == (200 if stream else 502)


@pytest.mark.long
def test_a_long_conversation_of_8_mb(at: str) -> None:
    def model(prompt: Prompt) -> Any:
        return f"{len(prompt.text)} {len(prompt.calls)}" if prompt.calls else CREATE

    with gateway(model, at) as place:
        big = {"role": "user", "content": "ä€😀 " * 800_000}
        first = place.ask([big], stream=True)
        size, count = map(int, said(first).split())
        assert (size > 3_000_000, count) == (True, 1)
        second = place.ask([big, {"role": "assistant", "content": first.content}, BYE])
        assert said(second).endswith(" 1")


def test_two_clients_write_to_one_store(at: str) -> None:
    def model(prompt: Prompt) -> Any:
        number = prompt.opening
        if not prompt.calls:
            return Call({"command": "create", "path": f"/memories/{number}.md", "file_text": number})
        return "Done."

    with gateway(model, at) as place, ThreadPoolExecutor(2) as pool:
        asked = [[{"role": "user", "content": str(number)}] for number in range(20)]
        assert {said(each) for each in pool.map(lambda each: place.ask(each, stream=True), asked)} == {"Done."}
        assert len(place.store.history.log()) == 20


@pytest.mark.long
def test_a_slow_reader_gets_all_and_holds_up_nobody(at: str) -> None:
    def model(prompt: Prompt) -> Any:
        return "tea " * 300_000 if prompt.opening == "hello" else "Quick."

    with gateway(model, at) as place:
        parts = urlsplit(place.url)
        headers = {"x-retentive-key": place.key, "x-api-key": "sk", "anthropic-version": "2023-06-01"}
        body = json.dumps(asks(HELLO, tools=[TOOL], stream=True))
        with closing(HTTPConnection("127.0.0.1", parts.port, timeout=60)) as connection:
            connection.request("POST", parts.path + "/v1/messages", body, headers)
            response = connection.getresponse()
            begun = response.read(1_000)
            assert said(place.ask([BYE])) == "Quick."
            whole = begun + response.read()
        assert whole.count(b"tea ") >= 290_000
        assert whole.endswith(b"\n\n")
