"""A handler in another language answers as the library, and a call that is sent again is carried out once."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event
from typing import Any
from urllib.parse import unquote

import pytest
from anthropic.types.beta import BetaMemoryTool20250818Command
from pydantic import TypeAdapter, ValidationError

import retentive
from contract.golden.transcript import TRANSCRIPTS
from support.http_api import Api, serving
from support.listener import Answer, Received, listening
from support.pages import ROOT

from .handlers import LANGUAGES, Handler, build

NONE = "no memory server answers at the URL"
OTHER = NONE, "the memory server answered "
IDS = (f"toolu_{number:024}" for number in itertools.count())


@pytest.fixture(scope="module", params=LANGUAGES, ids=lambda each: each.handler)
def handler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Handler:
    """Each language. Its program is built once."""
    return build(request.param, tmp_path_factory.mktemp("handler"))


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with retentive.open("sqlite://") as opened, serving(opened) as api:
        yield api


def call(api: Api, store: str, command: object, *, by_sdk: bool = False, **others: Any) -> dict[str, Any]:
    """A line for the program of a handler. With `by_sdk`, it calls an interface of the SDK that gives no id."""
    block = {"type": "tool_use", "id": next(IDS), "name": "memory", "input": command}
    return {"url": api.url, "key": api.key, "store": store, "timeout": 30, "block": block, "by_sdk": by_sdk, **others}


def create(name: str) -> dict[str, str]:
    return {"command": "create", "path": f"/memories/{name}", "file_text": "Zoë\n"}


def fits_sdk(command: object) -> bool:
    """True if a command has the types that the interfaces of the SDKs want."""
    try:
        TypeAdapter[Any](BetaMemoryTool20250818Command).validate_python(command, strict=True)
    except ValidationError:
        return False
    return True


@pytest.mark.long
def test_replies_match_the_transcripts(handler: Handler) -> None:
    """With their ids, and by the interface of the SDK. A lone surrogate is no UTF-8, so no body has one."""
    lines, expected = [], []
    with ExitStack() as stack:
        for transcript in TRANSCRIPTS:
            limits: dict[str, Any] = {**transcript.limits}
            opened = stack.enter_context(retentive.open("sqlite://", **limits))
            api = stack.enter_context(serving(opened))
            for by_sdk in handler.language.ways:
                store = opened.store(f"way-{by_sdk}")
                for one in (each for each in transcript.exchanges if "\\ud800" not in each.raw):
                    lines.append(call(api, store.id, one.command, by_sdk=by_sdk and fits_sdk(one.command)))
                    expected.append((f"{transcript.name}.txt, line {one.line}", one.text, one.is_error))
        results = handler.results(lines)
    assert len(results) == len(expected) > 190
    for line, result, (where, text, is_error) in zip(lines, results, expected, strict=True):
        assert result.get("content") == text, (where, result)
        if not (line["by_sdk"] and handler.language.name == "Java"):  # its interface has no flag for errors
            assert result.get("is_error", False) == is_error, where


@dataclass
class Trouble:
    """A proxy of a server. A path begins with its trouble, which the first attempt of each call has.

    Those that begin with `always-` have it at each attempt.
    """

    api: Api
    attempts: list[tuple[str, str]] = field(default_factory=list)
    """Trouble and id of each request."""
    ended: Event = field(default_factory=Event)

    def answer(self, request: Received) -> Answer:
        _, kind, path = request.path.split("/", 2)
        attempt = kind, json.loads(request.body)["id"]
        self.attempts.append(attempt)
        is_bad = kind.startswith("always-") or self.attempts.count(attempt) == 1
        status, _, body = kind.removeprefix("always-").partition("=")
        if is_bad and status.isdigit():
            return int(status), unquote(body).encode() or b'{"error": {"message": "not now"}}'
        if is_bad and kind == "page":
            return 502, b"<html>"
        answer = self.api.send("POST", f"/{path}", request.body, {"x-api-key": request.headers["x-api-key"]})
        if is_bad and kind == "late":
            self.ended.wait()
        if is_bad and kind in {"cut", "late"}:
            raise ConnectionAbortedError(kind)
        return answer.status, json.dumps(answer.body).encode()


@pytest.mark.long
def test_a_call_that_is_sent_again_is_carried_out_once(handler: Handler, api: Api) -> None:
    """The model sees no trouble that passes. Both attempts have the same id, and one version is stored."""
    store, trouble = api.place.opened.store(handler.language.handler), Trouble(api)
    with listening(trouble.answer) as url:
        calls = [
            call(api, store.id, create(f"{kind}-{by_sdk}"), url=f"{url}/{kind}", by_sdk=by_sdk, timeout=timeout)
            for by_sdk in handler.language.ways
            for kind, timeout in {"cut": 30, "late": 0.5, "page": 30, "429": 30, "503": 30}.items()
        ]
        results = handler.results([*calls, calls[0]])
        trouble.ended.set()
    paths = [each["block"]["input"]["path"] for each in [*calls, calls[0]]]
    assert [result.get("content") for result in results] == [f"File created successfully at: {path}" for path in paths]
    assert not any(result.get("is_error") for result in results)
    assert sorted(Counter(trouble.attempts).values()) == [*[2] * (len(calls) - 1), 3]
    assert Counter(each.path for each in store.versions()) == dict.fromkeys(paths, 1)


@pytest.mark.long
def test_failures_of_the_app_are_raised(handler: Handler, api: Api) -> None:
    """A message has neither the key nor the URL: runners of the SDKs show it to the model. No redirect gets the key."""
    store, trouble, elsewhere = api.place.opened.store("team"), Trouble(api), list[Received]()

    def receive(request: Received) -> Answer:
        elsewhere.append(request)
        return 200, b"{}"

    with (
        listening(receive) as target,
        listening(lambda _: (307, b"{}"), location=target) as redirecting,
        listening(trouble.answer) as url,
    ):
        cases = [
            (call(api, store.id, create("a"), key="rtv_wrong"), "the memory server answered 401: invalid API key"),
            (call(api, "memstore_none", create("a")), "the memory server answered 404: "),
            (call(api, "../team", create("a")), "the memory server answered 404: "),
            (call(api, store.id, create("a"), url=f"{url}/always-503"), "the memory server answered 503: not now"),
            (call(api, store.id, create("a"), url=redirecting), "the memory server answered 307"),
            (call(api, store.id, create("a"), url=f"{url}/always-200=%5B%5D"), NONE),
            (call(api, store.id, create("a"), url=f"{url}/always-200=%7B%7D"), NONE),
            (call(api, store.id, create("a"), url=f"{url}/always-500=%22x%22"), OTHER),
            (call(api, store.id, create("a"), url=f"{url}/always-401=%7B%22error%22:%22x%22%7D"), OTHER),
            (call(api, store.id, create("a"), url="http://127.0.0.1:1"), NONE),
        ]
        results = handler.results(line for line, _ in cases)
    for (line, message), result in zip(cases, results, strict=True):
        failed = result.get("failed", "")
        assert failed.startswith(message), result
        assert line["key"] not in failed
        assert "127.0.0.1" not in failed
    assert Counter(kind for kind, _ in trouble.attempts)["always-503"] == 2
    assert elsewhere == []
    assert store.memories() == []


def test_the_page_tells_the_length_of_each_handler() -> None:
    row = re.compile(r"^\| (\S+) \| \[(\S+)\]\(\.\./examples/languages/\2\) \| (\d+) \|", re.MULTILINE)
    names = {each.handler: each.name for each in LANGUAGES}
    texts = {handler: (ROOT / "examples" / "languages" / handler).read_text("utf-8") for handler in names}
    told = row.findall((ROOT / "docs" / "frameworks.md").read_text("utf-8"))
    assert told == [(names[handler], handler, str(len(text.splitlines()))) for handler, text in texts.items()]
