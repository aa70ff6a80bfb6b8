"""API keys: their text, their record, their permissions, and their routes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import anthropic
import pytest

import retentive
from retentive import MemoryStore, errors
from retentive.errors import InvalidInput
from retentive.server.keys import KeyStore, id_in, new_key
from retentive.store.location_records import LocationRecords
from support.clock import Clock
from support.http_api import Api, another_version

KEYS = "/v1/organizations/api_keys"
NOW = datetime(2026, 5, 1, tzinfo=UTC)
CACHE_S = 5.0  # until every process has noticed that a key was revoked
CREATE: dict[str, object] = {"command": "create", "path": "/memories/a.md", "file_text": "one\n"}


def block(block_id: str, command: dict[str, object]) -> dict[str, object]:
    return {"type": "tool_use", "id": block_id, "name": "memory", "input": command}


def test_the_text_of_a_key() -> None:
    made = new_key("first", now=NOW)
    assert re.fullmatch(r"rtv_[A-Za-z0-9]{12}_[A-Za-z0-9]{49}", made.text)
    assert id_in(made.text) == made.record.id == f"apikey_{made.text[4:16]}"
    assert made.text not in repr(made.record)


@pytest.mark.parametrize("place", [0, 4, 16, 20, 60, 64])
def test_a_typing_error_is_found_without_storage(place: int) -> None:
    text = new_key("first", now=NOW).text
    other = "x" if text[place] != "x" else "y"
    assert id_in(text[:place] + other + text[place + 1 :]) is None
    assert id_in(text[:-1]) is id_in(text + "x") is id_in("") is None


def test_a_revocation_elsewhere_holds_after_the_time_of_the_cache() -> None:
    clock = Clock()
    with retentive.open("sqlite://") as opened:
        ours, theirs = (KeyStore(LocationRecords(opened.backend), clock=clock, monotonic=clock) for _ in range(2))
        made = ours.create("agent")
        assert ours.authenticated(made.text) == made.record
        theirs.change(made.record.id, status="inactive")
        assert theirs.authenticated(made.text) is None
        assert ours.is_cached(made.text)
        assert ours.authenticated(made.text) == made.record
        clock.now += CACHE_S
        assert not ours.is_cached(made.text)
        assert ours.authenticated(made.text) is None
        assert ours.is_cached(made.text)


def test_a_key_that_another_version_stored_can_be_revoked() -> None:
    """The stored text may have other fields, spaces and escapes than this version writes."""
    with retentive.open("sqlite://") as opened:
        keys = KeyStore(opened.records)
        made = keys.create("Zoë")
        another_version(opened, "api_key")
        assert keys.change(made.record.id, status="archived").name == "Zoë"
        assert keys.authenticated(made.text) is None


def test_the_text_of_a_key_is_not_stored(tmp_path: Path) -> None:
    """Neither in the bytes of the storage nor in a later answer."""
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        keys = KeyStore(LocationRecords(opened.backend))
        made = keys.create("agent")
        assert keys.authenticated(made.text) is not None
        secret = made.text.split("_")[2]
        stored = b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
        assert made.record.digest.encode() in stored
        assert secret.encode() not in stored


def test_the_last_use_is_written_once_a_minute() -> None:
    clock = Clock()
    with retentive.open("sqlite://") as opened:
        keys = KeyStore(LocationRecords(opened.backend), clock=clock, monotonic=clock)
        made = keys.create("agent")
        found = []
        for seconds in (0, 1, 58, 1):
            clock.now += seconds
            keys.authenticated(made.text)
            found.append(keys.last_uses()[made.record.id])
        assert found[0] == found[1] == found[2] != found[3]


def test_a_cached_key_expires_in_time() -> None:
    clock = Clock()
    with retentive.open("sqlite://") as opened:
        keys = KeyStore(LocationRecords(opened.backend), clock=clock, monotonic=clock)
        made = keys.create("agent", expires_at=datetime.fromtimestamp(clock.now + 1, UTC))
        assert keys.authenticated(made.text) == made.record
        clock.now += 1
        assert keys.is_cached(made.text)
        assert keys.authenticated(made.text) is None


def test_the_first_key_is_created_once() -> None:
    """And none beside other keys."""
    with retentive.open("sqlite://") as opened:
        keys = KeyStore(LocationRecords(opened.backend))
        made = keys.first()
        assert made is not None
        assert made.record.scopes == ("admin",)
        assert keys.first() is None
        keys.change(made.record.id, status="archived")
        assert keys.first() is None
    with retentive.open("sqlite://") as opened:
        keys = KeyStore(LocationRecords(opened.backend))
        keys.create("agent")
        assert keys.first() is None


@pytest.mark.parametrize("principal", ["session:s1", "api_key:k", "service_account:svac_job_sweep", "ann"])
def test_principals_that_a_key_cannot_have(principal: str) -> None:
    with pytest.raises(InvalidInput):
        new_key("x", now=NOW, principal=principal)


@pytest.mark.parametrize("status", ["inactive", "archived"])
def test_a_revoked_key(api: Api, status: str) -> None:
    other = api.with_key("admin")
    key_id = f"{KEYS}/{id_in(other.key)}"
    assert other.get(key_id).body["status"] == "active"
    assert api.post(key_id, {"status": status}).body["status"] == status
    assert other.get(key_id).status == 401


def test_an_archived_key_stays_archived(api: Api) -> None:
    key_id = f"{KEYS}/{id_in(api.with_key('read').key)}"
    api.post(key_id, {"status": "archived"})
    assert api.post(key_id, {"status": "active"}).status == 400
    assert api.post(key_id, {"name": "old"}).body["name"] == "old"


def test_the_sdk_manages_keys(api: Api) -> None:
    made = api.post(KEYS, {"name": "agent", "principal": {"type": "user_actor", "user_id": "ann"}, "stores": ["a-*"]})
    assert made.body["scopes"] == ["read", "write"]
    assert made.body["api_key"].startswith("rtv_")
    with anthropic.Anthropic(api_key=api.key, base_url=api.url, _strict_response_validation=True) as client:
        keys = client.organization.api_keys
        found = keys.retrieve(made.body["id"])
        assert (found.name, found.status) == ("agent", "active")
        assert keys.update(made.body["id"], status="inactive").status == "inactive"
        assert next(each.id for each in keys.list(limit=1)) == made.body["id"]
        pages = [each.id for each in keys.list(limit=2)]
        assert pages == [each.id for each in keys.list(limit=1000)]
        assert [each.id for each in keys.list(status="inactive", limit=1000)][:1] == [made.body["id"]]
        with pytest.raises(anthropic.NotFoundError) as raised:
            keys.retrieve("apikey_unknown00000")
        assert raised.value.error_code == "not_found"


def test_x_api_key_wins(api: Api) -> None:
    assert api.get(KEYS, x_api_key=api.key, authorization="Bearer wrong").status == 200
    assert api.get(KEYS, x_api_key="wrong", authorization=f"Bearer {api.key}").status == 401


@pytest.mark.parametrize(("scope", "status"), [("read", 200), ("write", 403), ("review", 403), ("admin", 200)])
def test_scopes_of_the_tool(api: Api, at: str, scope: str, status: int) -> None:
    other = api.with_key(scope)
    assert other.post(f"{at}/tool", block("t", {"command": "view", "path": "/memories"})).status == status
    assert other.post(f"{at}/tool", block("u", CREATE)).status == (200 if scope in {"write", "admin"} else 403)


def test_patterns_of_stores(api: Api, store: MemoryStore) -> None:
    other = api.with_key("read", stores=(f"{(store.key or '')[:-3]}*",))
    assert other.get(f"/v1/memory_stores/{store.id}/usage").status == 200
    second = api.place.opened.store("not in the pattern")
    assert other.get(f"/v1/memory_stores/{second.id}/usage").status == 404
    by_id = api.with_key("read", stores=(second.id,))
    assert by_id.get(f"/v1/memory_stores/{second.id}/usage").status == 200
    assert by_id.get(f"/v1/memory_stores/{store.id}/usage").status == 404


def test_a_limited_admin_grants_no_more_than_its_own_stores(api: Api) -> None:
    limited = api.with_key("admin", stores=("limited-*", "b"))
    assert limited.post(KEYS, {"name": "x"}).status == 403
    assert limited.post(KEYS, {"name": "x", "stores": ["*"]}).status == 403
    made = limited.post(KEYS, {"name": "x", "stores": ["b"]}).body
    assert made["stores"] == ["b"]
    assert {each["id"] for each in limited.get(KEYS).body["data"]} == {made["id"], id_in(limited.key)}
    assert limited.post(f"{KEYS}/{made['id']}", {"status": "archived"}).status == 200
    assert limited.post(f"{KEYS}/{id_in(api.key)}", {"status": "archived"}).status == 404


def test_actors(api: Api, store: MemoryStore) -> None:
    """The actor of a change is the key, its principal, or one that the header names within what the key allows."""
    tool = f"/v1/memory_stores/{store.id}/tool"
    plain = api.with_key("write")
    ann = api.with_key("write", principal="user:ann", act_as=("session:s*", "job:*"))
    plain.post(tool, block("t1", CREATE))
    ann.post(tool, block("t2", {**CREATE, "path": "/memories/b.md"}))
    ann.send_as("session:s1").post(tool, block("t3", {**CREATE, "path": "/memories/c.md"}))
    ours = f"api_key:{id_in(plain.key)}"
    assert [str(each.actor) for each in reversed(store.versions())] == [ours, "user:ann", "session:s1"]
    assert ann.send_as("session:other").post(tool, block("t4", CREATE)).status == 403
    assert ann.send_as("job:expiry").post(tool, block("t4", CREATE)).status == 403
    assert plain.send_as("session:s1").post(tool, block("t4", CREATE)).status == 403
    assert ann.send_as("s1").post(tool, block("t4", CREATE)).status == 400


def test_the_last_use_is_shown(api: Api) -> None:
    other = api.with_key("admin")
    path = f"{KEYS}/{id_in(other.key)}"
    assert api.get(path).body["last_used_at"] is None
    other.get(path)
    assert datetime.fromisoformat(api.get(path).body["last_used_at"]).tzinfo is not None


def test_records_of_keys_are_no_memory_store(api: Api) -> None:
    assert api.get("/v1/memory_stores/memstore_" + "0" * 32 + "/usage").status == 404


def put_group(records: LocationRecords, name: str, *members: str) -> str:
    group_id = KeyStore(records).groups.id_of(name, "wrkspc_default")
    about = {"id": group_id, "name": name, "created_at": NOW.isoformat()}
    grant = {"role": "read", "stores": ["team-*"]}
    records.put("group", group_id, json.dumps({**about, "members": members, "grants": [grant]}))
    return group_id


def test_rights_of_groups_change_after_the_time_of_the_cache() -> None:
    """Of 1,000 groups, a key gets the grants of its own, without storage while they are known."""
    with retentive.open("sqlite://") as place:
        records, clock = place.records, Clock()
        for number in range(1_000):
            put_group(records, f"g{number}", f"user:u{number}", "service_account:ci-*")
        keys = KeyStore(records, clock=clock, monotonic=clock)
        made = keys.create("ann", scopes=(), principal="user:u7")
        keys.authenticated(made.text)
        record = keys.authenticated(made.text)
        assert keys.is_cached(made.text)
        assert record is not None
        assert [each.group for each in record.grants] == [keys.groups.id_of("g7", "wrkspc_default")]
        assert (record.sees("memstore_1", "team-a"), record.sees("memstore_1", "else")) == (True, False)
        put_group(records, "g7", "user:u8")
        assert keys.is_active(record)
        clock.now += CACHE_S
        assert not keys.is_cached(made.text)
        assert not keys.is_active(record)
        again = keys.authenticated(made.text)
        assert again is not None
        assert not again.sees("memstore_1", "team-a")


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_damaged_group_gives_no_rights_and_can_be_deleted(caplog: pytest.LogCaptureFixture, *, is_copy: bool) -> None:
    """So does one with the record of another group."""
    with retentive.open("sqlite://") as place:
        keys = KeyStore(place.records)
        good, bad = put_group(place.records, "good", "user:ann"), keys.groups.id_of("bad", "wrkspc_default")
        copy = place.records.get("group", good)
        place.records.put("group", bad, copy if is_copy else '{"members": ["user:ann"], "grants": "all"}')
        record = keys.authenticated(keys.create("ann", scopes=(), principal="user:ann").text)
        assert record is not None
        assert [each.group for each in record.grants] == [good]
        assert f"the group {bad} cannot be read" in caplog.text
        with pytest.raises(errors.Damaged, match=f"{bad} cannot be read; delete the group"):
            keys.groups.all("wrkspc_default")
        assert keys.groups.all("wrkspc_else") == []
        logged = {"by": "user:root", "integration": "cli"}
        with pytest.raises(errors.NotFound):
            keys.groups.delete(bad, "wrkspc_else", **logged)
        keys.groups.delete(bad, "wrkspc_default", **logged)
        assert [each.name for each in keys.groups.all("wrkspc_default")] == ["good"]
