"""Routes of trust: doubted memories, confirmations and quarantine."""

from __future__ import annotations

from retentive import MemoryStore
from retentive.server.keys import id_in
from support.http_api import Api

A, B = "/memories/team/a.md", "/memories/b.md"


def test_quarantine_hides_memories_until_they_are_released(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "good\n", actor="session:good")
    store.create(B, "bad\n", actor="session:bad")
    sent = {"pattern": "session:bad"}
    changed = {"type": "quarantine_change", "pattern": "session:bad", "changed": True}
    assert api.post(f"{at}/trust/quarantine", sent).body == changed
    assert api.post(f"{at}/trust/quarantine", sent).body == {**changed, "changed": False}
    (found,) = api.get(f"{at}/doubted_memories").body["data"]
    assert (found["path"], found["level"]) == ("/b.md", "quarantined")
    assert [each["path"] for each in api.post(f"{at}/search", {"query": "good bad"}).body["data"]] == ["/team/a.md"]
    assert api.post(f"{at}/trust/release", sent).body == changed
    assert api.get(f"{at}/doubted_memories").body == {"data": [], "next_page": None}
    assert api.post(f"{at}/search", {"query": "bad"}).body["total"] == 1


def test_pages_and_filters_of_doubted_memories(api: Api, store: MemoryStore, at: str) -> None:
    for path in (A, B, "/memories/c.md"):
        store.create(path, "text\n", actor="session:bad")
    store.trust.quarantine("session:bad")
    first = api.get(f"{at}/doubted_memories?limit=2").body
    rest = api.get(f"{at}/doubted_memories?limit=2&page={first['next_page']}").body
    assert [each["path"] for each in first["data"] + rest["data"]] == ["/b.md", "/c.md", "/team/a.md"]
    assert [each["path"] for each in api.get(f"{at}/doubted_memories?path_prefix=/team/").body["data"]] == [
        "/team/a.md"
    ]
    assert api.get(f"{at}/doubted_memories?level=unconfirmed").body["data"] == []
    assert api.get(f"{at}/doubted_memories?level=trusted").status == 400


def test_a_confirmed_memory_is_shown_again(api: Api, store: MemoryStore, at: str) -> None:
    store.change_settings({"trust": {"session:web": "unconfirmed"}})
    store.create(A, "text\n", actor="session:web")
    assert api.get(f"{at}/doubted_memories").body["data"][0]["contributors"]
    assert api.post(f"{at}/trust/confirm", {"path": "/team"}).body["paths"] == ["/team/a.md"]
    assert api.get(f"{at}/doubted_memories").body["data"] == []
    assert api.post(f"{at}/trust/confirm", {"path": "/none"}).status == 404


def test_decisions_on_trust_are_audited_with_the_key(api: Api, store: MemoryStore, at: str) -> None:
    store.change_settings({"audit": True})
    store.create(A, "text\n")
    api.post(f"{at}/trust/quarantine", {"pattern": "session:bad"})
    api.post(f"{at}/trust/confirm", {"path": "/"})
    found = [each for each in store.audit.entries() if str(each.operation or "").startswith("trust.")]
    assert [each.operation for each in found] == ["trust.quarantine", "trust.confirm"]
    assert {str(each.actor) for each in found} == {f"api_key:{id_in(api.key)}"}


def test_a_malformed_pattern_is_refused(api: Api, at: str) -> None:
    assert api.post(f"{at}/trust/quarantine", {"pattern": "source:"}).status == 400


def test_a_version_names_all_its_contributors(api: Api, store: MemoryStore, at: str) -> None:
    """Also if there are more than its provenance holds."""
    sessions = [f"session:{number}" for number in range(20)]
    for session in sessions:
        store.append(A, "x\n", actor=session)
    version = api.get(f"{at}/memory_versions/{store.load(A)[0].version_id}").body
    assert [each["actor"] for each in version["provenance"]["contributors"]] == sessions
