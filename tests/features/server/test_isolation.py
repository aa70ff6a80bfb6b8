"""Every route with every wrong key and foreign id, generated from the table of routes."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from retentive import MemoryStore
from retentive.server.keys import SCOPES, id_in
from retentive.server.routes import Route
from retentive.server.table import ROUTES
from support.http_api import Answer, Api

NO_KEY = {"type": "authentication_error", "message": "invalid API key", "details": {"error_code": "invalid_key"}}
ALL = pytest.mark.parametrize("route", ROUTES, ids=[f"{route.method} {route.path}" for route in ROUTES])
BODIES: dict[str, object] = {
    "content": "x", "name": "x", "path": "/x", "at": "2026-01-01T00:00:00Z", "type": "tool_use",
    "id": "t", "query": "x", "command": {"command": "view", "path": "/memories"},
}  # fmt: skip
UNKNOWN = {
    "memory_store_id": "memstore_" + "f" * 32,
    "memory_id": "mem_" + "f" * 32,
    "memory_version_id": "memver_" + "f" * 32,
    "proposal_id": "prop_" + "f" * 32,
    "api_key_id": "apikey_unknown00000",
}


def ask(api: Api, route: Route, ids: dict[str, str]) -> Answer:
    """Send a valid request to a route."""
    body = {field.name: BODIES[field.name] for field in route.body if field.required}
    if route.handler.__name__ == "update_memory":
        body["content"] = "x"
    if route.handler.__name__ == "undo_change":
        body["actor"] = "user:ann"
    query = urlencode({field.name: BODIES[field.name] for field in route.query if field.required})
    path = f"{route.path.format(**ids)}?{query}".removesuffix("?")
    return api.send(route.method, path, json.dumps(body).encode() if route.method == "POST" else None)


def bare(answer: Answer) -> tuple[int, object]:
    """An answer without the id of the request."""
    return answer.status, {**answer.body, "request_id": ""}


@ALL
def test_without_a_valid_key(api: Api, route: Route) -> None:
    """An unknown, expired, inactive or archived key, and one of another form, get the same answer."""
    inactive, archived = api.with_key("admin"), api.with_key("admin")
    for other, status in ((inactive, "inactive"), (archived, "archived")):
        api.place.keys.change(id_in(other.key) or "", status=status)
    wrong = ["", "wrong", "rtv_", "é", inactive.key, archived.key, new_text(), api.key[:-1]]
    found = [ask(Api(api.url, "", api.place, headers={"x-api-key": key}), route, UNKNOWN) for key in wrong]
    found.append(ask(Api(api.url, "", api.place), route, UNKNOWN))
    assert [(answer.status, answer.error) for answer in found] == [(401, NO_KEY)] * len(found)


def new_text() -> str:
    from datetime import UTC, datetime

    from retentive.server.keys import new_key

    return new_key("unknown", now=datetime.now(UTC)).text


@ALL
def test_without_the_scope(api: Api, route: Route) -> None:
    others = [scope for scope in SCOPES if scope not in {*route.scopes, "admin"}]
    answer = ask(api.with_key(*others), route, UNKNOWN)
    assert answer.status == 403
    assert answer.error["message"] == f"the key needs the scope {' or '.join(route.scopes)}"


@pytest.mark.parametrize("route", [each for each in ROUTES if each.path_names], ids=lambda each: each.name)
def test_foreign_things_do_not_exist(api: Api, store: MemoryStore, route: Route) -> None:
    """A store of another workspace, or outside the patterns of the key, is answered like an unknown id."""
    written = store.create("/memories/a.md", "one\n")
    memory = store.memories()[0]
    real = {**UNKNOWN, "memory_store_id": store.id, "memory_id": memory.id, "memory_version_id": written.version_id}
    real["api_key_id"] = id_in(api.key) or ""
    elsewhere = api.with_key("admin", workspace_id="wrkspc_other")
    expected = bare(ask(api, route, UNKNOWN))
    assert expected[0] == 404
    assert bare(ask(elsewhere, route, real)) == bare(ask(elsewhere, route, UNKNOWN)) == expected
    if "memory_store_id" in real and "api_key_id" not in route.path_names:
        patterned = api.with_key("admin", stores=("other-*", "memstore_" + "e" * 32))
        assert bare(ask(patterned, route, real)) == expected
    assert store.read("/memories/a.md") == "one\n"


@pytest.mark.parametrize("route", [each for each in ROUTES if len(each.path_names) > 1], ids=lambda each: each.name)
def test_ids_of_another_store_do_not_exist(api: Api, store: MemoryStore, route: Route) -> None:
    other = api.place.opened.store(f"other of {store.key}"[-250:])
    written = other.create("/memories/a.md", "one\n")
    ids = {**UNKNOWN, "memory_store_id": store.id}
    foreign = {**ids, "memory_id": other.memories()[0].id, "memory_version_id": written.version_id}
    answer = ask(api, route, foreign)
    assert answer.status == 404
    assert bare(answer) == bare(ask(api, route, ids))


@pytest.mark.parametrize("route", [each for each in ROUTES if each.path_names], ids=lambda each: each.name)
@pytest.mark.parametrize("wrong", ["x", "default", "%00", "é", "mem_", "HEAD", "a%2Fb"])
def test_ids_of_other_forms_do_not_exist(api: Api, store: MemoryStore, route: Route, wrong: str) -> None:
    """Not even keys of stores and names of revisions, which Python and the command line accept."""
    api.place.opened.store("default")
    from urllib.parse import quote

    for name in route.path_names:
        ids = {**UNKNOWN, "memory_store_id": store.id, name: quote(wrong, safe="%")}
        assert ask(api, route, ids).status == 404
