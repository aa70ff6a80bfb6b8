"""Requests that the server refuses, with the exact error, and the headers of every answer."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest

from support.http_api import Api

UNKNOWN = "/v1/memory_stores/memstore_" + "f" * 32
KEYS = "/v1/organizations/api_keys"


def error(kind: str, message: str, code: str) -> dict[str, object]:
    return {"type": kind, "message": message, "details": {"error_code": code}}


def invalid(message: str) -> dict[str, object]:
    return error("invalid_request_error", message, "invalid_input")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"x", "the body is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[]", "the body must be a JSON object"),
        (b'{"name":"a","name":"b"}', "the body is not valid JSON: 'name': the name occurs twice"),
        (b'{"a":{"b":1,"b":1}}', "the body is not valid JSON: 'b': the name occurs twice"),
        (b'{"name":NaN}', "the body is not valid JSON: NaN is not JSON"),
        (b'{"name":-Infinity}', "the body is not valid JSON: -Infinity is not JSON"),
        (b'{"name":1e999}', "the body is not valid JSON: the number 1e999 is too large"),
        (b'{"name":"\\ud800"}', "the body must be valid UTF-8, without lone surrogates"),
        (b'{"name":"\xff"}', "the body must be valid UTF-8, without lone surrogates"),
        (b"[" * 100_000, "the body is nested too deeply"),
        (b'{"name":' * 100_000 + b"1" + b"}" * 100_000, "the body is nested too deeply"),
        (b"{}", "name: Field required"),
        (b'{"name":null}', "name: Field required"),
        (b'{"name":"a","nome":1}', "nome: Extra inputs are not permitted"),
        (b'{"name":5}', "name: Input should be a valid string"),
        (b'{"name":""}', "name: String should have at least 1 character"),
        (b'{"name":"a","scopes":"read"}', "scopes: Input should be a valid list"),
        (b'{"name":"a","scopes":["all"]}',
         "scopes.0: Input should be 'read', 'write', 'review', 'erase', 'gateway' or 'admin'"),
        (b'{"name":"a","expires_at":"tomorrow"}',
         "expires_at: must be a time in RFC 3339 format, such as 2026-05-01T12:00:00Z"),
        (b'{"name":"a","expires_at":"2020-01-01T00:00:00Z"}', "expires_at must be in the future"),
    ],
)  # fmt: skip
def test_a_malformed_body(api: Api, body: bytes, message: str) -> None:
    answer = api.send("POST", KEYS, body)
    assert (answer.status, answer.error) == (400, invalid(message))


def test_many_names_are_compared_in_linear_time(api: Api) -> None:
    names = ",".join(f'"{number}":0' for number in range(60_000))
    answer = api.send("POST", KEYS, f'{{{names},"59999":0}}'.encode())
    assert answer.error == invalid("the body is not valid JSON: '59999': the name occurs twice")


def test_a_number_with_many_digits(api: Api) -> None:
    assert api.send("POST", KEYS, b'{"name":' + b"9" * 500_000 + b"}").status == 400


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=0", "limit: Input should be greater than or equal to 1"),
        ("limit=1001", "limit: Input should be less than or equal to 1000"),
        ("limit=x", "limit: Input should be a valid integer"),
        ("limit=1.0", "limit: Input should be a valid integer"),
        ("limit=1&limit=1", "the query of the URL contains the same name twice"),
        ("offset=1", "offset: Extra inputs are not permitted"),
        ("status=lost", "status: Input should be 'active', 'inactive', 'archived' or 'expired'"),
        ("limit=%FF", "the query of the URL is malformed"),
        ("limit", "the query of the URL is malformed"),
    ],
)
def test_a_malformed_query(api: Api, query: str, message: str) -> None:
    answer = api.get(f"{KEYS}?{query}")
    assert (answer.status, answer.error) == (400, invalid(message))


def test_the_query_beta_is_ignored(api: Api) -> None:
    assert api.get(f"{KEYS}?beta=true&limit=5").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/messages",
        "/v1//memory_stores",
        "/v1/memory_stores%2F",
        "/v1%2fmemory_stores",
        f"{KEYS}/",
        f"{UNKNOWN}/usage/x",
    ],
)
def test_an_unknown_route(api: Api, path: str) -> None:
    answer = api.get(path)
    assert (answer.status, answer.error) == (404, error("not_found_error", "route not found", "not_found"))


@pytest.mark.parametrize("path", [f"{UNKNOWN}/usage", "/healthz", "/readyz", "/metrics", "/openapi.json"])
def test_another_method(api: Api, path: str) -> None:
    answer = api.delete(path)
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert answer.error == error("invalid_request_error", "method not allowed", "method_not_allowed")


def test_a_body_over_the_limit(api: Api, at: str) -> None:
    body = json.dumps({"type": "tool_use", "id": "t", "name": "memory", "input": {"x": "y" * (8 << 20)}}).encode()
    answer = api.send("POST", f"{at}/tool", body)
    message = "the body of the request must have at most 8388608 bytes"
    assert (answer.status, answer.error) == (413, error("request_too_large", message, "body_too_large"))


def test_a_compressed_body(api: Api) -> None:
    answer = api.send("POST", KEYS, b"x", {"content-encoding": "gzip"})
    assert (answer.status, answer.error) == (400, invalid("Content-Encoding is not supported"))


def test_both_versions_of_the_api(api: Api) -> None:
    both = "agent-memory-2026-07-22, managed-agents-2026-04-01"
    message = "anthropic-beta: name only one of agent-memory-2026-07-22, managed-agents-2026-04-01"
    answer = api.get(KEYS, anthropic_beta=both)
    assert (answer.status, answer.error) == (400, invalid(message))
    for one in ("agent-memory-2026-07-22", "managed-agents-2026-04-01, other-2026-01-01", ""):
        assert api.get(KEYS, anthropic_beta=one, anthropic_version="2023-06-01").status == 200


def test_repeated_headers_count_as_one(api: Api) -> None:
    parts = urlsplit(api.url)
    lines = [f"GET {KEYS} HTTP/1.1", "host: x", f"authorization: Bearer {api.key}", "connection: close"]
    lines += ["anthropic-beta: agent-memory-2026-07-22", "anthropic-beta: managed-agents-2026-04-01", "", ""]
    with socket.create_connection((parts.hostname, parts.port or 0)) as connection:
        connection.sendall("\r\n".join(lines).encode())
        assert connection.makefile("rb").readline() == b"HTTP/1.1 400 Bad Request\r\n"


def test_the_workspace_of_a_key(api: Api) -> None:
    assert api.get(KEYS).headers["anthropic-workspace-id"] == "wrkspc_default"
    assert api.get(KEYS, anthropic_workspace_id="wrkspc_default").status == 200
    answer = api.get(KEYS, anthropic_workspace_id="wrkspc_other")
    message = "the API key does not belong to the workspace in the header Anthropic-Workspace-Id"
    assert (answer.status, answer.error) == (403, error("permission_error", message, "permission_denied"))


def test_health_needs_no_key(api: Api) -> None:
    bare = Api(api.url, "", api.place)
    assert bare.get("/healthz").body == {"status": "ok"}
    assert bare.get("/readyz").body == {"status": "ready", "maintenance": None}
    assert bare.get("/openapi.json").body["openapi"] == "3.1.0"
