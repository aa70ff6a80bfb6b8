"""Evidence of a session: what it read in which version, what it changed, who reviewed it, and what was altered."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
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

from .logs import Log, database

A, B, C, D = (f"/memories/{name}" for name in ("a.md", "<b>.md", "c.md", "d.md"))
TOOL = f"toolu_{1:024}"
Alter = Callable[[sqlite3.Connection, Evidence], None]


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


def evidence(at: str, **options: Any) -> Evidence:
    with retentive.open(at) as opened:
        return gather([opened.store()], **{"session": "s1", **options})


def told(versions: Any) -> list[tuple[str | None, str | None, str]]:
    return [(each.path, each.sha256, each.state) for each in versions]


def test_evidence_says_what_a_session_did(at: str) -> None:
    """Reads with versions and hashes, changes with the hash before, the tool_use id, and the decisions on proposals."""
    found = evidence(at)
    (store,) = found.stores
    assert (found.is_sound, found.findings, found.session, store.unlogged) == (True, [], "s1", [])
    log = [(step.log["operation"], step.log["outcome"]) for step in store.steps]
    kinds = [("view", "ok"), ("str_replace", "ok"), ("search", "ok"), ("list", "ok"), ("view", "not_found")]
    assert log == [*kinds, ("write", "ok"), ("create", "ok"), ("create", "ok")]
    view, replace, search, listed, missing, other, *proposed = store.steps
    assert told(view.read) == [(A, sha("one\n"), "kept")]
    assert view.log["run"] == "r1"
    (changed,) = replace.changed
    assert (changed.sha256_before, changed.sha256) == (sha("one\n"), sha("<i>two</i>\n"))
    assert (changed.logged_sha256, changed.version_before) == (changed.sha256, view.read[0].memory_version_id)
    assert changed.provenance["tool_use_id"] == replace.log["tool_use_id"] == TOOL
    assert told(search.read) == told(listed.read) == told(replace.changed)
    assert (missing.paths, missing.read, missing.changed) == (("/memories/none",), [], [])
    assert (other.log["actor"], other.changed[0].provenance["session"], told(other.changed)[0][0]) == (
        "user:bo",
        "s1",
        B,
    )
    accepted, refused = store.reviews
    assert [step.log["proposed"] for step in proposed] == [True, True]
    assert (accepted.decision, accepted.by, told(accepted.versions)) == (
        "accepted", "user:ann", [(C, sha("four\n"), "kept")],
    )  # fmt: skip
    assert (refused.decision, refused.by, refused.versions) == ("refused", "user:ann", [])
    assert all(each.text is None for step in store.steps for each in (*step.read, *step.changed))


def test_the_proof_can_be_verified_without_retentive(at: str) -> None:
    """The program is that of docs/audit.md."""
    program = Path("docs/audit.md").read_text().partition("<!-- proof -->\n```python\n")[2].partition("```")[0]
    given = asdict(evidence(at))
    scope: dict[str, Any] = {"evidence": json.loads(json.dumps(given))}
    exec(program, scope)
    line = given["stores"][0]["chain"][1]
    for wrong in (line.replace("session:s1", "session:s2"), line.replace('"ok"', '"no"'), ""):
        scope["evidence"]["stores"][0]["chain"][1] = wrong
        with pytest.raises((AssertionError, ValueError)):
            exec(program, scope)


def test_actors_and_runs_can_be_named(at: str) -> None:
    (view,) = evidence(at, session=None, run="r1").stores[0].steps
    assert view.read[0].path == A
    operations = [step.log["operation"] for step in evidence(at, session=None, actor="user:*").stores[0].steps]
    assert operations == ["create", "write", "review.accept", "review.refuse"]
    assert evidence(at, actor="session:s1", session="session:s1").stores[0].reviews
    for wrong, error in (({"session": "none"}, NotFound), ({"session": None}, InvalidInput)):
        with pytest.raises(error):
            evidence(at, **wrong)


def test_texts_only_if_asked_for_and_never_removed_ones(at: str) -> None:
    """With texts, the log gets an entry. A redacted version says by which entry. The log loses its hash too."""
    version = evidence(at).stores[0].steps[0].read[0].memory_version_id
    with retentive.open(at) as opened:
        store = opened.store()
        store.history.redact(version, actor="user:ann")
        found = evidence(at, texts=True)
        *_, redaction, reading = store.audit.entries()
        assert (redaction.operation, reading.operation) == ("redact", "evidence")
        assert sha("one\n") not in str(records(store))
        first, second = (found.stores[0].steps[number] for number in (0, 1))
        assert (first.read[0].state, first.read[0].removed_by) == ("redacted", redaction.seq)
        assert (first.read[0].text, second.changed[0].text) == (None, "<i>two</i>\n")
        store.history.erase(A, actor="user:ann")
        found = evidence(at, texts=True)
        assert (found.is_sound, found.stores[0].steps[1].changed[0].state) == (True, "removed")
        assert sha("<i>two</i>\n") not in str(records(store))
        assert "two" not in page(found)


def records(store: MemoryStore) -> list[tuple[str, str]]:
    return store._core.read(lambda snapshot: list(snapshot.records(ENTRY)))


def test_a_page_is_escaped_and_has_no_script(at: str) -> None:
    found = page(evidence(at, texts=True))
    assert "&lt;i&gt;two" in found
    assert "/memories/&lt;b&gt;.md" in found
    assert not [tag for tag in ("<script", "<i>", "<b>.md", "href=", "src=", "http:", "https:") if tag in found]
    assert "&lt;i&gt;two" not in page(evidence(at))


def test_the_command_line_and_a_server_give_the_same(at: str, tmp_path: Path) -> None:
    """Only a key with the scope `admin` may read it."""
    html = tmp_path / "s1.html"
    result = here(at, "--json", "evidence", "--session", "s1", "--all", "--html", str(html))
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
            gather([remote.store()], session="s1")


def altered_entry(database: sqlite3.Connection, _: Evidence) -> None:
    database.execute("UPDATE records SET value = replace(value, 'session:s1', 'session:s9') WHERE name LIKE '%03'")


def removed_entry(database: sqlite3.Connection, _: Evidence) -> None:
    database.execute("DELETE FROM records WHERE kind = 'audit' AND name LIKE '%04'")


def removed_hashes(database: sqlite3.Connection, found: Evidence) -> None:
    line = found.stores[0].steps[1].lines[1]
    database.execute("UPDATE records SET value = replace(value, ?, '') WHERE kind = 'audit'", (line,))


def altered_text(database: sqlite3.Connection, found: Evidence) -> None:
    """The text, its hash and its size are changed, so that they agree with each other."""
    version = found.stores[0].steps[1].changed[0].memory_version_id
    values = (b"forged\n", sha("forged\n"), 7, version)
    database.execute("UPDATE versions SET text = ?, sha256 = ?, size_bytes = ? WHERE id = ?", values)


def altered_before(database: sqlite3.Connection, found: Evidence) -> None:
    """What another wrote, and the session read and replaced."""
    version = found.stores[0].steps[0].read[0].memory_version_id
    values = (b"forged\n", sha("forged\n"), 7, version)
    database.execute("UPDATE versions SET text = ?, sha256 = ?, size_bytes = ? WHERE id = ?", values)


def altered_decision(database: sqlite3.Connection, _: Evidence) -> None:
    database.execute("UPDATE records SET value = replace(value, 'user:ann', 'user:bo') WHERE kind = 'reviewed'")


def altered_actor(database: sqlite3.Connection, found: Evidence) -> None:
    version = found.stores[0].steps[1].changed[0].memory_version_id
    database.execute("UPDATE versions SET actor = 'user:ann' WHERE id = ?", (version,))


def removed_version(database: sqlite3.Connection, found: Evidence) -> None:
    version = found.stores[0].steps[0].read[0].memory_version_id
    database.execute("DELETE FROM versions WHERE id = ?", (version,))


def forged_version(database: sqlite3.Connection, found: Evidence) -> None:
    """An entry and its version are moved to a version that the session never made."""
    version = found.stores[0].steps[1].changed[0].memory_version_id
    database.execute("UPDATE versions SET id = ? WHERE id = ?", (f"{version}0", version))


@pytest.mark.parametrize(
    ("alter", "named"),
    [
        (altered_entry, "entry altered: entry 3"),
        (removed_entry, "entry missing: entry 4"),
        (removed_hashes, "entry altered: entry 4"),
        (altered_text, "version altered"),
        (altered_before, "version altered"),
        (altered_decision, "decision altered: entry 13"),
        (altered_actor, "version altered"),
        (removed_version, "version missing"),
        (forged_version, "version without an entry"),
    ],
)
def test_an_altered_record_is_named(alter: Alter, named: str, tmp_path: Path) -> None:
    at = place_of("sqlite", tmp_path)
    use(at)
    with closing(sqlite3.connect(database(tmp_path))) as connection, connection:
        alter(connection, evidence(at))
    html = tmp_path / "e.html"
    result = here(at, "evidence", "--session", "s1", "--html", str(html))
    assert (result.exit_code, "Not sound:" in result.stderr) == (13, True)
    assert named in result.stderr
    assert "Records were altered or are missing" in html.read_text()
    assert evidence(at, texts=True).is_sound is False
    assert Log(tmp_path).records().keys() <= {f"{number:012}" for number in range(1, 16)}  # no entry was added


def test_an_anchor_is_compared(tmp_path: Path) -> None:
    """The log was rewritten whole, with correct hashes: only an anchor shows it."""
    at, anchors, key = place_of("sqlite", tmp_path), str(tmp_path / "anchors"), str(tmp_path / "key")
    use(at)
    assert here(at, "admin", "audit", "key", key).exit_code == 0
    assert here(at, "admin", "audit", "anchor", anchors, "--key", key).exit_code == 0
    arguments = ("evidence", "--session", "s1", "--anchor", anchors, "--key", key)
    assert here(at, *arguments).stderr.endswith("No alteration was found.\n")
    Log(tmp_path).cut_after(6)
    Log(tmp_path).put(
        {"head": "6:" + json.loads(Log(tmp_path).records()["000000000006"].split("\n")[0])["hash"]}, "audit.head"
    )
    result = here(at, *arguments)
    assert (result.exit_code, "entry missing: entry" in result.stderr) == (13, True)


def test_without_a_log_only_changes_are_known(tmp_path: Path) -> None:
    at = place_of("sqlite", tmp_path)
    with retentive.open(at, actor="session:s1") as opened:
        opened.store().create(A, "one\n")
        opened.store().execute({"command": "view", "path": A})
        (store,) = gather([opened.store()], session="s1").stores
    assert (store.is_audited, store.steps, store.chain, store.head) == (False, [], [], None)
    assert told(store.unlogged) == [(A, sha("one\n"), "kept")]
    result = here(at, "evidence", "--session", "s1")
    assert (result.exit_code, "The audit log of default is off" in result.stderr) == (0, True)
