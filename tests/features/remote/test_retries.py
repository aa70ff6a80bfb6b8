"""The rules for retries, without connections, and one server that is overloaded."""

from __future__ import annotations

import json

import httpx2
import pytest

import retentive
from retentive import errors
from retentive.remote.client import MAX_TRIES, HttpFailure, pause_after, read_answer
from retentive.server.errors import overloaded
from retentive.wire.base import Answer
from support.http_api import Api


def answer(status: int, code: str = "", **headers: str) -> httpx2.Response:
    error = {"type": "x", "message": "said", "details": {"error_code": code}}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"type": "error", "error": error, "request_id": "r"}
    return httpx2.Response(status, headers=given, content=json.dumps(body).encode())


@pytest.mark.parametrize(
    ("outcome", "is_repeated"),
    [
        (HttpFailure("", was_sent=False), True),
        (HttpFailure("", was_sent=True), True),
        (HttpFailure("", was_sent=False, is_final=True), False),
        (answer(429), True),
        (answer(503, "overloaded"), True),
        (answer(503, "unavailable"), True),
        (answer(503, "outcome_unknown"), True),
        (answer(504), True),
        (answer(502), True),
        (answer(500, "damaged"), False),
        (answer(400, "invalid_input"), False),
        (answer(409, "conflict"), False),
        (answer(507, "store_full"), False),
    ],
    ids=str,
)
def test_what_is_repeated(outcome: httpx2.Response | HttpFailure, is_repeated: bool) -> None:
    assert (pause_after(outcome, 1) is not None) == is_repeated


def test_pauses_grow_and_end() -> None:
    pauses = [pause_after(answer(503), tries) for tries in range(1, MAX_TRIES + 1)]
    assert pauses[-1] is None
    waited = [pause for pause in pauses if pause is not None]
    assert len(waited) == MAX_TRIES - 1
    assert all(0.05 * 2**number <= pause <= 0.1 * 2**number for number, pause in enumerate(waited))


@pytest.mark.parametrize(("given", "least"), [("7", 7), ("3600", 60), ("soon", 0), ("-1", 0), ("", 0)])
def test_the_server_may_ask_for_a_longer_pause(given: str, least: float) -> None:
    pause = pause_after(answer(429, retry_after=given), 1)
    assert pause is not None
    assert least <= pause <= max(least, 0.1)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_path", errors.InvalidPath),
        (400, "archived", errors.Archived),
        (400, "unknown", errors.InvalidInput),
        (401, "invalid_key", errors.PermissionDenied),
        (403, "permission_denied", errors.PermissionDenied),
        (403, "read_only", errors.ReadOnly),
        (404, "not_found", errors.NotFound),
        (409, "conflict", errors.Conflict),
        (409, "precondition_failed", errors.Conflict),
        (413, "body_too_large", errors.TooLarge),
        (429, "rate_limited", errors.Unavailable),
        (500, "damaged", errors.Damaged),
        (500, "locked", errors.Locked),
        (503, "overloaded", errors.Unavailable),
        (503, "outcome_unknown", errors.OutcomeUnknown),
        (507, "store_full", errors.StoreFull),
    ],
)
def test_errors_by_code_and_status(status: int, code: str, kind: type[errors.RetentiveError]) -> None:
    with pytest.raises(kind, match="said") as raised:
        read_answer(Answer, answer(status, code), is_change=False)
    assert type(raised.value) is kind


def test_a_change_that_a_proxy_cut_has_an_unknown_outcome() -> None:
    for outcome in (answer(504), HttpFailure("cut", was_sent=True)):
        with pytest.raises(errors.OutcomeUnknown):
            read_answer(Answer, outcome, is_change=True)
        with pytest.raises(errors.Unavailable):
            read_answer(Answer, outcome, is_change=False)
    with pytest.raises(errors.Unavailable):
        read_answer(Answer, HttpFailure("refused", was_sent=False), is_change=True)


def test_an_overloaded_server_is_asked_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two requests get 503 with `retry-after`, and are sent again after it."""
    pauses: list[float] = []
    monkeypatch.setattr("retentive.remote.client.time.sleep", pauses.append)
    with retentive.open(api.url, api_key=api.key) as opened:
        store = opened.store("overloaded")
        reads = iter([True, True])
        read = api.place.store

        def busy(*given: object, **how: object) -> object:
            if next(reads, False):
                raise overloaded("busy")
            return read(*given, **how)  # type: ignore[arg-type]

        monkeypatch.setattr(api.place, "store", busy)
        assert store.execute({"command": "create", "path": "/memories/a.md", "file_text": "x"}).is_error is False
    assert [pause >= 1 for pause in pauses] == [True, True]
