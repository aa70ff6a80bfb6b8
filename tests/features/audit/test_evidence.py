"""Evidence of a session: what it read in which version, what it changed, who reviewed it, and what was altered."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import MemoryStore
from retentive.audit.chain import ENTRY
from retentive.errors import InvalidInput, NotFound, PermissionDenied
from retentive.evidence import Evidence, gather
from retentive.evidence_page import page
from support.command_line import here
from support.http_api import serving
from support.places import place_of

from .logs import database

A, B, C, D = (f"/memories/{name}" for name in ("a.md", "<b>.md", "c.md", "d.md"))
TOOL = f"toolu_{1:024}"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def use(at: str) -> None:
    """The session reads, changes and proposes; others write what it reads, and decide."""
    with retentive.open(at) as opened, retentive.open(at, actor="session:s1") as own:
        store, mine = opened.store(), own.store()
        store.change_settings({"audit": True})
        store.create(A, "one\n", actor="user:ann")
        mine.execute({"command": "view", "path": A}, run="r1")
        change = {"command": "str_replace", "path": A, "old_str": "one", "new_str": "<i>two</i>"}
        mine.execute(change, tool_use_id=TOOL)
        mine.search("two")
        mine.list_memories(texts=True)
        mine.execute({"command": "view", "path": "/memories/none"})
        store.write(B, "three\n", actor="user:bo", session="s1")
        store.change_settings({"review": ["session:*"]})
        mine.execute({"command": "create", "path": C, "file_text": "four\n"})
        mine.execute({"command": "create", "path": D, "file_text": "five\n"})
        first, second = store.review.pending()
        store.review.accept([first.id], actor="user:ann")
        store.review.refuse([second.id], actor="user:ann")
        store.execute({"command": "view", "path": A}, actor="session:other")


@pytest.fixture(params=["sqlite", "postgresql"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    place = place_of(request.param, tmp_path)
    use(place)
    return place


def evidence(at: str, session: str = "s1") -> Evidence:
    with retentive.open(at) as opened:
        return gather([opened.store()], session)


def told(versions: Any) -> list[tuple[str | None, str | None, str]]:
    return [(each.path, each.sha256, each.state) for each in versions]


def test_evidence_says_what_a_session_did(at: str) -> None:
    """Reads with versions and hashes, changes with the hash before, the tool_use id, and the decisions on proposals."""
    found = evidence(at)
    (store,) = found.stores
    assert (found.is_sound, store.findings, found.session) == (True, [], "s1")
    log = [(step.operation, step.outcome) for step in store.steps]
    kinds = [("view", "ok"), ("str_replace", "ok"), ("search", "ok"), ("list", "ok"), ("view", "not_found")]
    assert log == [*kinds, ("write", "ok"), ("create", "ok"), ("create", "ok"), ("review.accept", "ok")]
    view, replace, search, listed, missing, other, *proposed, accepting = store.steps
    assert told(view.read) == [(A, sha("one\n"), "kept")]
    (changed,) = replace.changed
    assert (changed.sha256_before, changed.sha256) == (sha("one\n"), sha("<i>two</i>\n"))
    assert changed.version_before == view.read[0].memory_version_id
    assert changed.provenance["tool_use_id"] == replace.tool_use_id == TOOL
    assert told(search.read) == told(listed.read) == told(replace.changed)
    assert (missing.paths, missing.read, missing.changed) == (("/memories/none",), [], [])
    assert (other.actor, other.changed[0].provenance["session"], told(other.changed)[0][0]) == ("user:bo", "s1", B)
    assert [each.state for step in proposed for each in step.changed] == ["proposed"] * 2
    assert (accepting.actor, told(accepting.changed)) == ("user:ann", [(C, sha("four\n"), "kept")])
    accepted, refused = store.reviews
    assert (accepted.decision, accepted.by, accepted.entry) == ("accepted", "user:ann", accepting.entry)
    assert (refused.decision, refused.by) == ("refused", "user:ann")
    assert "two" not in json.dumps(asdict(found))
    for wrong, error in (("none", NotFound), ("", InvalidInput)):
        with pytest.raises(error):
            evidence(at, wrong)


def test_the_proof_can_be_verified_without_retentive(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is that of docs/security.md."""
    program = Path("docs/security.md").read_text().partition("<!-- proof -->\n```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)

    def run(chain: Sequence[str]) -> None:
        (store,) = asdict(evidence(at))["stores"]
        Path("s2.json").write_text(json.dumps({"stores": [{**store, "chain": chain}]}))
        exec(program, {})

    chain = evidence(at).stores[0].chain
    run(chain)
    for wrong in (chain[1].replace("session:s1", "session:s2"), chain[1].replace('"ok"', '"no"'), ""):
        with pytest.raises((AssertionError, ValueError)):
            run([chain[0], wrong, *chain[2:]])


def test_what_was_removed_is_said_and_not_kept(at: str) -> None:
    """The entry of the removal is named. The log loses the hash of the text too."""
    version = evidence(at).stores[0].steps[0].read[0].memory_version_id
    with retentive.open(at) as opened:
        store = opened.store()
        store.history.redact(version, actor="user:ann")
        *_, redaction = store.audit.entries()
        assert sha("one\n") not in str(records(store))
        (read,) = evidence(at).stores[0].steps[0].read
        assert (read.state, read.removed_by) == ("redacted", redaction.seq)
        store.history.erase(A, actor="user:ann")
        found = evidence(at)
        assert (found.is_sound, found.stores[0].steps[1].changed[0].state) == (True, "removed")
        assert sha("<i>two</i>\n") not in str(records(store))


def records(store: MemoryStore) -> list[tuple[str, str]]:
    return store._core.read(lambda snapshot: list(snapshot.records(ENTRY)))


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><img src=x onerror=y>'])
def test_a_page_is_escaped_and_has_no_script(name: str) -> None:
    with retentive.open("sqlite://", actor=f"session:{name}") as opened:
        store = opened.store()
        store.change_settings({"audit": True})
        store.create("/memories/<b>.md", "</script><i>x</i>", source=name)
        found = page(gather([store], name))
    assert "/memories/&lt;b&gt;.md" in found
    assert not [tag for tag in ("<script", "</script", "<i", "<b>.md", "href=", "src=x>", "http:") if tag in found]


def test_the_command_line_and_a_server_give_the_same(at: str, tmp_path: Path) -> None:
    """Only a key with the scope `admin` may read it."""
    html = tmp_path / "s1.html"
    result = here(at, "--json", "evidence", "--session", "s1", "--html", str(html))
    assert (result.exit_code, "No alteration was found" in html.read_text()) == (0, True)
    local = json.loads(result.stdout)
    with retentive.open(at) as opened, serving(opened) as api:
        path = f"/v1/memory_stores/{opened.store().id}/audit/evidence?session=s1"
        answer = api.get(path).body
        for made in (local, answer):
            del made["made_at"]
        assert answer == {"type": "evidence", **local}
        for scopes in (("read", "write"), ("review",), ("erase",)):
            assert api.with_key(*scopes).get(path).status == 403
        assert api.get(path.partition("?")[0]).status == 400
        there = here(api.url, "--json", "evidence", "--session", "s1", RETENTIVE_API_KEY=api.key)
        assert {**json.loads(there.stdout), "made_at": 0} == {**local, "made_at": 0}
        with retentive.open(api.url, api_key=api.with_key("read").key) as remote, pytest.raises(PermissionDenied):
            gather([remote.store()], "s1")


FORGED = "UPDATE versions SET text = 'forged\n', sha256 = :sha256, size_bytes = 7 WHERE id ="
"""The text, its hash and its size agree with each other."""
ALTERED = {
    "UPDATE records SET value = replace(value, 'session:s1', 'session:s9') WHERE name LIKE '%03'": "entry 3: altered",
    "DELETE FROM records WHERE kind = 'audit' AND name LIKE '%04'": "entry 4: missing",
    "UPDATE records SET value = replace(value, :detail, '') WHERE kind = 'audit'": "entry 4: altered",
    f"{FORGED} :changed": "version altered",
    f"{FORGED} :read": "version altered",  # what another wrote, and the session read and replaced
    "UPDATE records SET value = replace(value, 'user:ann', 'user:bo') WHERE kind = 'reviewed'": (
        "decision altered: entry 13"
    ),
    "UPDATE versions SET actor = 'user:ann' WHERE id = :changed": "version altered",
    "UPDATE versions SET path = '/memories/z.md' WHERE id = :changed": "version altered",
    "UPDATE versions SET provenance = replace(provenance, 's1', 's9') WHERE actor = 'user:bo'": "version altered",
    "UPDATE records SET value = x'ff' WHERE kind = 'audit' AND name LIKE '%03'": "entry 3: altered",
    "DELETE FROM versions WHERE id = :read": "version missing",
    "UPDATE versions SET id = id || '0' WHERE id = :changed": "version without an entry",
}


@pytest.mark.parametrize("statement", ALTERED)
def test_an_altered_record_is_named(statement: str, tmp_path: Path) -> None:
    at = place_of("sqlite", tmp_path)
    use(at)
    reading, changing = evidence(at).stores[0].steps[:2]
    with closing(sqlite3.connect(database(tmp_path))) as connection, connection:
        named = {"detail": "\n" + changing.lines[1], "changed": changing.changed[0].memory_version_id}
        named |= {"read": reading.read[0].memory_version_id, "sha256": sha("forged\n")}
        assert connection.execute(statement, named).rowcount >= 1
    html = tmp_path / "e.html"
    result = here(at, "evidence", "--session", "s1", "--html", str(html))
    assert (result.exit_code, "Records were altered or are missing" in result.stderr) == (13, True)
    assert ALTERED[statement] in result.stderr
    assert "Records were altered or are missing" in html.read_text()


def test_a_session_whose_only_entry_was_altered_is_not_unknown(tmp_path: Path) -> None:
    at = place_of("sqlite", tmp_path)
    with retentive.open(at) as opened:
        opened.store().change_settings({"audit": True})
        opened.store().execute({"command": "view", "path": "/memories"}, actor="session:s1")
    with closing(sqlite3.connect(database(tmp_path))) as connection, connection:
        connection.execute("UPDATE records SET value = replace(value, 'session:s1', 'session:s9')")
    assert evidence(at).stores[0].findings == ["entry 2: altered"]


def test_without_a_log_only_changes_are_known(tmp_path: Path) -> None:
    at = place_of("sqlite", tmp_path)
    with retentive.open(at, actor="session:s1") as opened:
        opened.store().create(A, "one\n")
        opened.store().execute({"command": "view", "path": A})
        (store,) = gather([opened.store()], "s1").stores
    assert (store.is_audited, store.chain, store.head) == (False, [], None)
    assert [(step.entry, step.operation, told(step.changed)) for step in store.steps] == [
        (None, "created", [(A, sha("one\n"), "kept")])
    ]
    result = here(at, "evidence", "--session", "s1")
    assert (result.exit_code, "The audit log of default is off" in result.stderr) == (0, True)
