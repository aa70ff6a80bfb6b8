"""Every route with every wrong key and foreign id, generated from the table of routes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import product
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from retentive import MemoryStore
from retentive.server.calls import Route
from retentive.server.handlers import ROUTES
from retentive.server.keys import KeyStore, id_in, new_key
from retentive.store.location_records import LocationRecords
from support.http_api import Answer, Api, fields_in
from support.profiles import sized

SCOPES = sorted({scope for route in ROUTES for scope in route.scopes})
NO_KEY = {"type": "authentication_error", "message": "invalid API key", "details": {"error_code": "invalid_key"}}
ALL = pytest.mark.parametrize("route", ROUTES, ids=[f"{route.method} {route.path}" for route in ROUTES])
BODIES: dict[str, object] = {
    "content": "x", "name": "x", "path": "/x", "at": "2026-01-01T00:00:00Z", "type": "tool_use",
    "id": "t", "query": "x", "pattern": "session:x",
    "commands": [{"command": "delete", "path": "/memories/x"}],
    "url": "https://example.com/", "enabled_events": ["memory_store.created"],
    "command": {"command": "view", "path": "/memories"},
}  # fmt: skip
STREAMS = {"stream_events"}
"""Routes whose answer does not end; test_events.py has their tests."""
UNKNOWN = {
    "memory_store_id": "memstore_" + "f" * 32,
    "memory_id": "mem_" + "f" * 32,
    "memory_version_id": "memver_" + "f" * 32,
    "proposal_id": "prop_" + "f" * 32,
    "api_key_id": "apikey_unknown00000",
    "webhook_endpoint_id": "whep_unknown",
    "group_id": "group_" + "f" * 40,
    "dream_id": "drm_" + "f" * 32,
    "workspace_id": "wrkspc_unknown",
}


def example(name: str, schema: dict[str, Any]) -> object:
    """A valid value of a required field, so that a new route needs no new line here in most cases."""
    if name in BODIES:
        return BODIES[name]
    by_type = {"object": {}, "array": [], "integer": schema.get("minimum", 1), "boolean": False}
    choices = schema.get("enum")
    return choices[0] if isinstance(choices, list) else by_type.get(str(schema.get("type")), "x")


def ask(api: Api, route: Route, ids: dict[str, str], **more: str | None) -> Answer:
    """Send a valid request to a route. `more` are further fields of its query or its body."""
    of_body = fields_in(route.body)
    body = {name: example(name, schema) for name, schema in of_body.items() if schema["required"]}
    if route.handler.__name__ == "update_memory":
        body["content"] = "x"
    if route.handler.__name__ == "undo_change":
        body["actor"] = "user:ann"
    given = {name: example(name, schema) for name, schema in fields_in(route.query).items() if schema["required"]}
    for name, value in more.items():
        if name in of_body:
            body[name] = value == "true" if of_body[name].get("type") == "boolean" else value
        elif value is not None:
            given[name] = value
    query = urlencode(given)
    path = f"{route.path.format(**ids)}?{query}".removesuffix("?")
    return api.send(route.method, path, json.dumps(body).encode() if route.method == "POST" else None)


def filled(store: MemoryStore) -> dict[str, str]:
    """Ids in a store that has two of everything."""
    store.change_settings({"audit": True, "review": ["session:*"], "quarantine": ["user:doubted"]})
    for name in ("y", "z"):
        store.create(f"/memories/{name}.md", f"secret {name}\n", actor="user:doubted")
    for name in ("a", "b"):
        store.create(f"/memories/{name}.md", f"secret {name} [source: {name}.py]\n")
        store.write(f"/memories/{name}.md", f"proposed {name}\n", actor="session:s0")
        store.review.refuse(proposed_by="session:s0", actor="user:ann")
        store.write(f"/memories/{name}.md", f"proposed {name}\n", actor="session:s1")
    return {
        **UNKNOWN,
        "memory_store_id": store.id,
        "memory_id": store.memories()[0].id,
        "memory_version_id": store.versions()[0].id,
        "proposal_id": store.review.pending()[0].id,
    }


def endpoint(api: Api) -> str:
    """Id of a webhook endpoint of the workspace, which has at most 50."""
    path, body = (
        "/v1/webhook_endpoints",
        {"url": "https://hooks.example.com/x", "enabled_events": ["memory_store.created"]},
    )
    known: list[dict[str, str]] = api.get(path).body["data"]
    return (known or [api.post(path, body).body])[0]["id"]


def dream(api: Api, store_id: str) -> str:
    """Id of a new dream, which was canceled."""
    api.place.can_dream = True
    body = {"inputs": [{"type": "memory_store", "memory_store_id": store_id}], "model": "m"}
    made = str(api.post("/v1/dreams", body).body["id"])
    assert api.post(f"/v1/dreams/{made}/cancel").body["status"] == "canceled"
    return made


def of_workspace(api: Api) -> dict[str, str]:
    """Ids of what the default workspace has beside memory stores."""
    api.post("/v1/organizations/groups", {"name": "isolated", "members": ["user:nobody"]})  # once
    made = api.place.keys.groups.id_of("isolated", "wrkspc_default")
    ids = {"api_key_id": id_in(api.key) or "", "webhook_endpoint_id": endpoint(api), "group_id": made}
    return {**ids, "workspace_id": "wrkspc_default", "dream_id": dream(api, api.place.opened.store("dreaming").id)}


def member(api: Api, store: MemoryStore, *grants: Mapping[str, object]) -> Api:
    """A key without rights of its own, and with those of a group that has these grants."""
    who = f"user:{store.id}"
    body = {"name": store.id, "members": [who], "grants": list(grants)}
    assert api.post("/v1/organizations/groups", body).status == 200
    return api.with_key(principal=who)


def bare(answer: Answer) -> tuple[int, object]:
    """An answer without the id of the request."""
    return answer.status, {**answer.body, "request_id": ""}


def text_of(answer: Answer) -> str:
    return answer.body.decode("latin-1") if isinstance(answer.body, bytes) else json.dumps(answer.body)


@pytest.fixture(scope="module")
def foreign(api: Api) -> dict[str, str]:
    """Ids in a store that has two of everything, and of what its workspace has. No test may change it."""
    return {**filled(api.place.opened.store("foreign")), **of_workspace(api)}


@ALL
def test_without_a_valid_key(api: Api, route: Route) -> None:
    """A missing, unknown, expired, inactive or archived key, and one of another form, get the same answer."""
    inactive, archived = api.with_key("admin"), api.with_key("admin")
    for other, status in ((inactive, "inactive"), (archived, "archived")):
        api.place.keys.change(id_in(other.key) or "", status=status)
    wrong = ["", "wrong", "rtv_", "é", inactive.key, archived.key, expired(api), new_text(), api.key[:-1]]
    wrong += [api.key.swapcase(), f"{api.key}0", f" {api.key[:-1]} ", "rtv_" + "0" * 62]
    sent: list[dict[str, str]] = [{"x-api-key": key} for key in wrong]
    sent += [{"authorization": f"Bearer {key}"} for key in wrong]
    sent += [{"authorization": text} for text in ("Bearer", api.key, f"Basic {api.key}", f"Token {api.key}")]
    sent += [{}, {"cookie": f"key={api.key}"}]
    step = sized(quick=5, long=1, full=1)  # so that each of them meets every fifth route
    sent = sent[ROUTES.index(route) % step :: step]
    found = [ask(Api(api.url, "", api.place, headers=headers), route, UNKNOWN) for headers in sent]
    assert [(answer.status, answer.error) for answer in found] == [(401, NO_KEY)] * len(found)


def expired(api: Api) -> str:
    """Text of a key that was valid for one second, long ago."""
    keys = KeyStore(LocationRecords(api.place.opened.backend), clock=lambda: 1e9)
    return keys.create("expired", scopes=("admin",), expires_at=datetime.fromtimestamp(1e9 + 1, UTC)).text


def new_text() -> str:
    return new_key("unknown", now=datetime.now(UTC)).text


@ALL
def test_without_the_scope(api: Api, route: Route) -> None:
    others = [scope for scope in SCOPES if scope not in {*route.scopes, "admin"}]
    answer = ask(api.with_key(*others), route, UNKNOWN)
    assert answer.status == 403
    assert answer.error["message"] == f"the API key needs the scope {' or '.join(route.scopes)}"


@pytest.mark.parametrize("route", [each for each in ROUTES if each.path_names], ids=lambda each: each.name)
def test_foreign_things_do_not_exist(api: Api, foreign: dict[str, str], route: Route) -> None:
    """A store of another workspace, or outside the patterns of the key, is answered like an unknown id."""
    real, store = foreign, api.place.opened.store("foreign")
    assert all(real[name] != UNKNOWN[name] for name in route.path_names)
    before = store.versions()[0].id
    elsewhere = api.with_key("admin", workspace_id="wrkspc_other")
    expected = bare(ask(api, route, UNKNOWN))
    assert expected[0] == 404
    assert bare(ask(elsewhere, route, real)) == bare(ask(elsewhere, route, UNKNOWN)) == expected
    if "memory_store_id" in route.path_names:
        patterned = api.with_key("admin", stores=("other-*", "memstore_" + "e" * 32))
        assert bare(ask(patterned, route, real)) == expected
        named = ask(Api(api.url, api.key, api.place, headers={"anthropic-workspace-id": "wrkspc_other"}), route, real)
        assert named.status == 403
    assert store.versions()[0].id == before


@pytest.mark.parametrize("route", [each for each in ROUTES if each.name not in STREAMS], ids=lambda each: each.name)
@pytest.mark.parametrize("kind", ["workspace", "patterns"])
def test_answers_contain_nothing_foreign(api: Api, foreign: dict[str, str], route: Route, kind: str) -> None:
    """Not in lists, errors and exports either, though both stores have the same paths, texts and key."""
    if kind == "workspace":
        other = api.with_key("admin", workspace_id=f"wrkspc_{route.name}")
        own = other.post("/v1/memory_stores", {"name": "own", "key": "foreign"}).body["id"]
    else:
        own = api.place.opened.store(f"own {route.name}").id
        other = api.with_key("admin", stores=(own,))
    assert own != foreign["memory_store_id"]
    ids = {**filled(api.place.opened.store(own)), "api_key_id": id_in(other.key) or ""}
    ids["workspace_id"] = "wrkspc_default" if kind == "patterns" else f"wrkspc_{route.name}"
    answer = ask(other, route, ids)
    text = text_of(answer)
    hidden = [foreign[name] for name in UNKNOWN if kind == "workspace" or name != "workspace_id"]
    assert [each for each in hidden if each in text] == []


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
def test_ids_of_other_forms_do_not_exist(api: Api, store: MemoryStore, route: Route) -> None:
    """Not even keys of stores and names of revisions, which Python and the command line accept."""
    api.place.opened.store("default")
    for wrong, name in product(["x", "default", "%00", "é", "mem_", "HEAD", "a%2Fb"], route.path_names):
        ids = {**UNKNOWN, "memory_store_id": store.id, name: quote(wrong, safe="%")}
        assert ask(api, route, ids).status == 404, (name, wrong)


LISTS = [each for each in ROUTES if "page" in fields_in(each.query) and "webhook_endpoint_id" not in each.path_names]
LISTS = [each for each in LISTS if not any(field["required"] for field in fields_in(each.query).values())]
"""The lists of a store or a workspace; test_webhooks.py has the test for the list of an endpoint."""


@pytest.mark.parametrize("route", LISTS, ids=lambda each: each.name)
def test_cursors_of_other_stores_and_workspaces(api: Api, store: MemoryStore, route: Route) -> None:
    """They are refused like a cursor for a store that does not exist, and never answered with its contents."""
    other = api.with_key("admin", workspace_id="wrkspc_cursors")
    for _ in range(2):
        other.post("/v1/memory_stores", {"name": "foreign"})
    there = other.post("/v1/memory_stores", {"name": "foreign"}).body["id"]
    ids = filled(api.place.opened.store(there))
    assert dream(other, there) < dream(other, there)
    path = route.path.format(**ids)
    cursor = other.get(f"{path}?limit=1").body["next_page"]
    assert cursor is not None
    own = {**filled(store), "memory_store_id": store.id}
    assert ask(other, route, ids, page=cursor).status == 200
    refused = ask(api, route, own, page=cursor)
    assert (refused.status, refused.error["message"]) == (
        400,
        "page: the cursor belongs to another list, or to a list with other filters",
    )
    if route.path_names:
        assert bare(ask(api, route, ids, page=cursor)) == bare(ask(api, route, UNKNOWN, page=cursor))
        assert ask(api, route, ids, page=cursor).status == 404


@pytest.mark.parametrize(
    "route", [each for each in ROUTES if "memory_store_id" in each.path_names], ids=lambda each: each.name
)
def test_a_key_for_some_paths_sees_nothing_else(api: Api, store: MemoryStore, route: Route) -> None:
    """No answer of any route has a path, a text or an id of a memory outside of the paths of the key."""
    written = store.create("/memories/team/a.md", "inside\n")
    other = store.create("/memories/MARKER.md", "MARKER\n")
    store.write("/memories/MARKER.md", "MARKER again\n")
    limited = api.with_key("read", "write", paths=("/memories/team/**",))
    ids = {**UNKNOWN, "memory_store_id": store.id}
    foreign = {**ids, "memory_id": other.memory_id, "memory_version_id": other.version_id}
    before = store.read("/memories/MARKER.md"), len(store.versions(memory_id=other.memory_id))
    if len(route.path_names) > 1:
        assert bare(ask(limited, route, foreign)) == bare(ask(limited, route, ids))
    if route.name not in STREAMS:
        own = {**ids, "memory_id": written.memory_id, "memory_version_id": written.version_id}
        answer = ask(limited, route, own)
        assert answer.status < 500
        text = text_of(answer)
        assert [each for each in ("MARKER", other.memory_id, other.version_id) if each in text] == []
    assert (store.read("/memories/MARKER.md"), len(store.versions(memory_id=other.memory_id))) == before


ROLES = [{"role": role, "stores": ["granted-*"]} for role in ("read", "write", "review", "admin")]
TO_STORES = [each for each in ROUTES if "memory_store_id" in each.path_names]


@pytest.mark.parametrize("route", TO_STORES, ids=lambda each: each.name)
def test_a_member_of_a_group_sees_no_other_store(
    api: Api, store: MemoryStore, foreign: dict[str, str], route: Route
) -> None:
    """With every role in other stores, the answer is that of an unknown id. A role in the store has its routes."""
    ann, real, there = member(api, store, *ROLES), foreign, api.place.opened.store("foreign")
    before = there.versions()[0].id
    expected = bare(ask(ann, route, UNKNOWN))
    assert expected[0] == 404
    assert bare(ask(ann, route, real)) == expected == bare(ask(api, route, UNKNOWN))
    assert there.versions()[0].id == before
    reader = member(api, api.place.opened.store(f"r {store.key}"[-250:]), {"role": "read", "stores": [there.id]})
    if "read" not in route.scopes:
        assert ask(reader, route, real).status == ask(reader, route, UNKNOWN).status == 403
    assert there.versions()[0].id == before


@pytest.mark.parametrize("route", TO_STORES, ids=lambda each: each.name)
def test_a_member_for_other_paths_to_read_than_to_write(api: Api, store: MemoryStore, route: Route) -> None:
    """No answer of any route has anything of the other paths, and nothing changes but what may be written."""
    written = store.create("/memories/team/a.md", "inside\n")
    seen = store.create("/memories/book/a.md", "book\n")
    other = store.create("/memories/MARKER.md", "MARKER\n")
    store.write("/memories/MARKER.md", "MARKER again\n")
    grants = [("write", "/memories/team"), ("read", "/memories/book")]
    ann = member(api, store, *({"role": role, "stores": [store.id], "paths": [path]} for role, path in grants))
    before = store.read("/memories/MARKER.md"), store.read("/memories/book/a.md"), len(store.memories())
    ids = {**UNKNOWN, "memory_store_id": store.id}
    if len(route.path_names) > 1:
        foreign = {**ids, "memory_id": other.memory_id, "memory_version_id": other.version_id}
        assert bare(ask(ann, route, foreign)) == bare(ask(ann, route, ids))
    for own in (seen, written) if route.name not in STREAMS else ():
        answer = ask(ann, route, {**ids, "memory_id": own.memory_id, "memory_version_id": own.version_id})
        assert answer.status < 500
        text = text_of(answer)
        assert [each for each in ("MARKER", other.memory_id, other.version_id) if each in text] == []
    after = store.read("/memories/MARKER.md"), store.read("/memories/book/a.md")
    assert after == before[:2]


OF_STORES = [each for each in ROUTES if each.method == "GET" and "memory_store" in each.path]


@pytest.mark.parametrize("route", [each for each in OF_STORES if each.name not in STREAMS], ids=lambda each: each.name)
def test_a_key_for_some_paths_sees_no_size_of_the_whole_store(api: Api, store: MemoryStore, route: Route) -> None:
    """Neither the size of the others nor the sum of all, nor their number."""
    written = store.create("/memories/team/a.md", "x" * 77_777)
    for number in range(3):
        store.create(f"/memories/others/{number}.md", "x" * 55_555)
    limited = api.with_key("read", "write", paths=("/memories/team/**",), stores=(store.id,))
    ids = {**UNKNOWN, "memory_store_id": store.id}
    answer = ask(limited, route, {**ids, "memory_id": written.memory_id, "memory_version_id": written.version_id})
    text = text_of(answer)
    assert [each for each in (55_555, 3 * 55_555, 77_777 + 3 * 55_555) if str(each) in text] == []
    assert '"memory_count": 4' not in text


@pytest.mark.parametrize("limit", [{"max_memories": 4}, {"max_store_bytes": 30_000}])
def test_a_full_store_tells_a_key_for_some_paths_no_size(api: Api, store: MemoryStore, limit: dict[str, int]) -> None:
    store.create("/memories/team/a.md", "x")
    for number in range(3):
        store.create(f"/memories/others/{number}.md", "x" * 9_000)
    store.change_settings(limit)
    limited = api.with_key("read", "write", paths=("/memories/team/**",))
    at = f"/v1/memory_stores/{store.id}"
    create = {"command": "create", "path": "/memories/team/b.md", "file_text": "x" * 9_000}
    refused = limited.post(f"{at}/commands", {"command": create}).body
    assert (refused["content"], refused["is_error"]) == ("Error: The memory store is full", True)
    edit = {"command": "append", "path": "/memories/team/a.md", "file_text": "y" * 500}
    assert limited.post(f"{at}/commands", {"command": edit}).body["notes"] == []
    assert "27" in store.execute(create).text or "4" in store.execute(create).text


READERS = [each for each in ROUTES if {"read", "write"} & {*each.scopes}]


@pytest.mark.parametrize("variant", ["", "trust=quarantined", "view=full", "history=true", "at=r1"])
@pytest.mark.parametrize("route", [each for each in READERS if each.name not in STREAMS], ids=lambda each: each.name)
def test_a_key_without_review_sees_nothing_in_quarantine(
    api: Api, store: MemoryStore, route: Route, variant: str
) -> None:
    """No text, path or id of a hidden memory: not as versions, differences, earlier states or hits of any search."""
    planted = store.create("/memories/MARKER.md", "MARKER secret\n", actor="session:evil")
    store.write("/memories/MARKER.md", "MARKER again\n", actor="session:evil")
    store.append("/memories/MARKER.md", "by somebody else\n", actor="session:good")
    store.create("/memories/a.md", "fine\n")
    store.trust.quarantine("session:evil")
    reader = api.with_key("read", "write")
    ids = {**UNKNOWN, "memory_store_id": store.id}
    hidden = {**ids, "memory_id": planted.memory_id, "memory_version_id": planted.version_id}
    name, _, value = variant.partition("=")
    fields = {*fields_in(route.query), *fields_in(route.body)}
    if name and name not in fields:
        return
    answer = ask(reader, route, hidden, **{name: value} if name else {})
    text = text_of(answer)
    assert [each for each in ("MARKER", planted.memory_id, planted.version_id) if each in text] == []
    if len(route.path_names) > 1:
        assert answer.status == 404


def test_a_key_with_review_sees_what_is_in_quarantine(api: Api, store: MemoryStore) -> None:
    planted = store.create("/memories/MARKER.md", "MARKER secret\n", actor="session:evil")
    store.trust.quarantine("session:evil")
    path = f"/v1/memory_stores/{store.id}/memory_versions/{planted.version_id}?view=full"
    assert api.with_key("read").get(path).status == 404
    assert api.with_key("read", "review").get(path).body["content"] == "MARKER secret\n"


@pytest.mark.parametrize("scope", ["review", "erase", "admin"])
def test_a_key_for_some_paths_has_no_scope_over_stores(api: Api, scope: str) -> None:
    answer = api.post("/v1/organizations/api_keys", {"name": "k", "scopes": [scope], "paths": ["/memories/team/**"]})
    assert (answer.status, "only the scopes read and write" in answer.error["message"]) == (400, True)
