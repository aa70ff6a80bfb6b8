"""Routes of trust: doubted memories, confirmations and quarantine."""

from __future__ import annotations

from retentive import MemoryStore
from retentive.server.keys import id_in
from support.http_api import Api

A, B = "/memories/team/a.md", "/memories/b.md"


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
