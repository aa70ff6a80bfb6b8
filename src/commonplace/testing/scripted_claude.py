"""A small HTTP server that answers `POST /v1/messages` from a script. It is a script, not a model.

It is for testing agents and memory tools without a key, a bill or luck: what the assistant says and calls is
fixed, everything around it is real: your client, its tool loop, HTTP, and the tool that runs. It never
pretends to be a model: every response has the header `x-scripted-claude`, the model "scripted-claude" and an
id `msg_scripted_...`.

    look = Call({"command": "view", "path": "/memories"}, Check(contains=("/memories",)))
    script = Script((Turn(("Let me look.", look)), Turn(("Nothing there yet.",))))
    with scripted_claude(script) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="none needed")
        client.beta.messages.tool_runner(tools=[...], ...).until_done()
    assert server.failures == []

**Which turn comes next** follows from the number of assistant messages in the conversation, so nothing
depends on the order of requests and many conversations may run at once. Given several scripts, the first
whose `when` occurs in the first user message is played; after its last turn every reply is a closing text
with "end_turn".

**Checks** belong to the call they are about and are asked when its result comes back. A check that fails is
answered with HTTP 400 and an error that names turn, expected and actual, and is kept in `server.failures`. So
are a call of a tool that the request did not offer, tool calls that came back changed, and a conversation no
script is for.

**Like the API** it takes plain and streamed requests, `messages` and `beta.messages`, and message threads
(the `anthropic` SDK's `tool_runner` uses them unless told `thread=False`): it holds the conversation under
the id of its last reply, each reply can be continued once, and `context_management` cannot be threaded. It
refuses, with the API's error shape, what the API refuses: no key, no version, missing fields, tool calls
without a result and results without a call, a thread without its beta header. What is not in a script does
not happen: no thinking, no caching, no context editing, no limit by `max_tokens`; `usage` is a rough count.

**As a program**, `python -m commonplace.testing.scripted_claude --port 8765 SCRIPT.json` prints its URL as
its first line and serves until stopped; it then exits 1 if a script failed. `GET /scripted` tells requests
and failures. The file:

    {"scripts": [
      {"name": "first visit", "when": "my name is",
       "turns": [
         {"blocks": ["Let me look.",
                     {"call": {"command": "view", "path": "/memories"},
                      "check": {"text": "...", "contains": ["..."], "is_error": false}}]},
         {"blocks": ["Hello again."]}]}]}

or one entry of "scripts" alone. `name`, `when`, `check` and all within it may be left out; a block may have
the `name` of another tool, a turn a `stop_reason`. Without `is_error` a check expects no error; null is
either.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import socket
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from commonplace.testing.scripted_reply import MODEL, THE_END, Failure, PlayError, Reply, answer
from commonplace.testing.scripted_requests import ApiError, Threads, check_conversation, invalid, parse
from commonplace.testing.scripted_script import Call, Check, Script, ScriptError, Turn, scripts_from_json
from commonplace.testing.scripted_stream import encoded, events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from starlette.requests import Request as HttpRequest

__all__ = [
    "MODEL",
    "THE_END",
    "Call",
    "Check",
    "Exchange",
    "Failure",
    "Script",
    "ScriptError",
    "ScriptedClaude",
    "Turn",
    "scripted_claude",
    "scripts_from_json",
]

BANNER = "scripted Claude: this is a script, not a model; nobody is thinking here"
STARTUP_TIMEOUT_S = 30  # generous: a loaded CI machine needs seconds to import and start uvicorn


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what was answered; `reply` is the message, also when it was streamed, or the error."""

    headers: Mapping[str, str]
    body: object
    status: int
    reply: Mapping[str, object]


class ScriptedClaude:
    """The server: what it was asked and what went wrong. Started by `scripted_claude`.

    `failures` and `requests` grow while it runs and may be read from any thread. `threads=False` makes it
    refuse message threads, as the API does for some organisations. `new_suffix` gives the unique part of each
    id.
    """

    def __init__(
        self,
        *scripts: Script,
        threads: bool = True,
        new_suffix: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self.url = ""
        self.failures: list[Failure] = []
        self.requests: list[Exchange] = []
        self._scripts = scripts
        self._threads = Threads(supported=threads)
        self._new_suffix = new_suffix

    def answer(self, headers: Mapping[str, str], data: bytes) -> tuple[Reply | ApiError, bool]:
        """The reply or the error for one request, recorded, and whether the client wants it streamed."""
        body: object = None
        stream = False
        answered: Reply | ApiError
        try:
            body = _json(data)
            request = parse(headers, body)
            stream = request.stream
            conversation = self._threads.join(request)
            check_conversation(conversation)
            answered = answer(
                self._scripts, conversation, suffix=self._new_suffix(), edits_context=request.edits_context
            )
            self._threads.keep(request, conversation, answered.id, answered.blocks)
        except ApiError as error:
            answered = error
        except PlayError as failed:
            self.failures.append(failed.failure)
            answered = invalid(f"[scripted Claude] {failed.failure}")
        status, reply = _rendered(answered)
        self.requests.append(Exchange(dict(headers), body, status, reply))
        return answered, stream

    def app(self, *, on_startup: Callable[[], None] = lambda: None) -> Starlette:
        """The server as an ASGI application."""

        @asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            on_startup()
            yield

        routes = [
            Route("/v1/messages", self._post_message, methods=["POST"]),
            Route("/scripted", self._get_state, methods=["GET"]),
            Route("/{path:path}", _not_found, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]
        return Starlette(routes=routes, lifespan=lifespan)

    async def _post_message(self, request: HttpRequest) -> Response:
        answered, stream = self.answer(dict(request.headers), await request.body())
        if stream and isinstance(answered, Reply):
            sent = (encoded(event) for event in events(answered))
            return StreamingResponse(sent, media_type="text/event-stream", headers=_headers(self._new_suffix()))
        return _response(*_rendered(answered), suffix=self._new_suffix())

    async def _get_state(self, _request: HttpRequest) -> Response:
        state = {"requests": len(self.requests), "failures": [str(failure) for failure in self.failures]}
        return _response(200, state, suffix=self._new_suffix())


@contextmanager
def scripted_claude(*scripts: Script, port: int = 0, threads: bool = True) -> Iterator[ScriptedClaude]:
    """A `ScriptedClaude` serving on the loopback while the block runs, in a thread; port 0 is a free one."""
    claude = ScriptedClaude(*scripts, threads=threads)
    started = threading.Event()
    listener = _listen(claude, port)
    server = _uvicorn(claude.app(on_startup=started.set))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="scripted-claude", daemon=True)
    thread.start()
    try:
        if not started.wait(STARTUP_TIMEOUT_S):
            raise RuntimeError(f"the scripted Claude did not start within {STARTUP_TIMEOUT_S} s")
        yield claude
    finally:
        server.should_exit = True
        thread.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the scripts of a file until stopped; the exit code is 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m commonplace.testing.scripted_claude", description=BANNER)
    parser.add_argument("script", type=Path, help="a JSON file, see the documentation of this module")
    parser.add_argument("--port", type=int, default=0, help="the port on 127.0.0.1; 0, the default, takes a free one")
    options = parser.parse_args(arguments)
    try:
        claude = ScriptedClaude(*scripts_from_json(options.script.read_text("utf-8")))
    except (OSError, ScriptError) as error:
        parser.error(str(error))
    listener = _listen(claude, options.port)

    def announce() -> None:
        print(claude.url, flush=True)
        print(BANNER, file=sys.stderr, flush=True)

    for signum in (signal.SIGINT, signal.SIGTERM):
        # uvicorn shuts down in order and raises the signal again, which would end us before the report below.
        signal.signal(signum, lambda _signum, _frame: None)
    _uvicorn(claude.app(on_startup=announce)).run(sockets=[listener])
    for failure in claude.failures:
        print(failure, file=sys.stderr)
    return 1 if claude.failures else 0


def _listen(claude: ScriptedClaude, port: int) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", port))
    claude.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    return listener


def _uvicorn(app: Starlette) -> uvicorn.Server:
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="on", ws="none", timeout_graceful_shutdown=1
    )
    return uvicorn.Server(config)


def _json(data: bytes) -> object:
    try:
        body: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise invalid(f"The request body is not valid JSON: {error}") from error
    return body


def _rendered(answered: Reply | ApiError) -> tuple[int, dict[str, object]]:
    if isinstance(answered, ApiError):
        return answered.status, answered.body()
    return 200, answered.message()


def _response(status: int, body: Mapping[str, object], *, suffix: str) -> Response:
    # ASCII with escapes: a script may hold what UTF-8 cannot, such as a lone surrogate.
    return Response(json.dumps(body), status, headers=_headers(suffix), media_type="application/json")


def _headers(suffix: str) -> dict[str, str]:
    return {"x-scripted-claude": BANNER, "request-id": f"req_scripted_{suffix}"}


async def _not_found(request: HttpRequest) -> Response:
    error = ApiError(404, "not_found_error", f"[scripted Claude] There is no {request.method} {request.url.path} here.")
    return _response(*_rendered(error), suffix="none")


if __name__ == "__main__":
    sys.exit(main())
