"""Promotion: a memory is proposed to another memory store with its history, on every backend and through every door."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import MemoryStore, NotFound
from retentive.errors import AlreadyExists, InvalidInput, PermissionDenied, ReadOnly
from support.command_line import here
from support.http_api import serving
from support.places import COMPARED, opened
from support.profiles import some

A, B, ANN, BOB, S1 = "/memories/a.md", "/memories/d/b.md", "user:ann", "user:bob", "session:s1"
WEB, KEY = "web:https://example.org", "AKIAQ3EGVSNB6RTKX2ZP"


def private(place: retentive.Retentive) -> MemoryStore:
    """A memory with three versions by two authors, one of them under another path, and a second memory."""
    store = place.store("private")
    store.create("/memories/old.md", "one\n", actor=S1, source=WEB)
    store.write("/memories/old.md", "one\ntwo\n", actor=ANN)
    store.rename("/memories/old.md", A, actor=ANN)
    store.create(B, "b\n", actor=S1)
    return store


def past(store: MemoryStore, path: str) -> list[tuple[Any, ...]]:
    """Author, time and text of each version, oldest first."""
    found = store.history.log(path)[::-1]
    return [(str(each.actor), each.created_at, store.version_text(each.id)) for each in found]


@pytest.mark.parametrize("where", some(dict.fromkeys([*COMPARED, "s3", "mariadb"]), 2))
def test_a_promotion_is_a_reviewed_change_with_its_history(where: str, tmp_path: Path) -> None:
    with opened(where, tmp_path) as place:
        source, team = private(place), place.store("team")
        team.create("/memories/own.md", "own\n", actor=BOB)
        made = source.promote(A, team, new_path="/memories/new.md", actor=ANN)
        assert (made.path, made.memories, made.versions) == ("/memories/new.md", 1, 3)
        team.write("/memories/own.md", "later\n", actor=BOB)
        assert [each.path for each in team.memories()] == ["/memories/own.md"]
        with pytest.raises(PermissionDenied, match="the author of a proposal cannot accept it"):
            team.review.accept([made.proposal_id], actor=ANN)
        assert team.review.accept([made.proposal_id], actor=BOB).done == (made.proposal_id,)
        found = past(team, "/memories/new.md")
        assert found[:3] == past(source, A)
        assert found[3][::2] == (ANN, "one\ntwo\n")
        newest = team.versions("/memories/new.md")[0].provenance
        assert (newest.cause, newest.accepted_by) == (f"promotion of {A}", BOB)
        assert [each.actor for each in newest.contributors] == [S1, ANN]
        assert team.versions("/memories/new.md")[-1].provenance.source == WEB
        assert (team.read("/memories/new.md"), team.usage().memories, team.usage().size_bytes) == ("one\ntwo\n", 2, 14)
        assert [each.revision for each in team.versions()] == [3, 3, 3, 3, 2, 1]
        team.append("/memories/new.md", "three\n", actor=BOB)
        assert [str(each.version.actor) for each in team.history.blame("/memories/new.md")] == [S1, ANN, BOB]
        assert past(source, A) == found[:3]
        team.undo("r4", actor=BOB)
        team.undo("r3", actor=BOB)
        assert [each.path for each in team.memories()] == ["/memories/own.md"]


def test_a_directory_is_promoted_whole_or_not_at_all(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as place:
        source, team = private(place), place.store("team")
        team.create(B, "theirs\n", actor=BOB)
        with pytest.raises(AlreadyExists):
            source.promote("/memories", team, actor=ANN)
        with pytest.raises(AlreadyExists):  # a memory cannot be the root
            source.promote(A, team, new_path="/memories", actor=ANN)
        assert team.review.pending() == []
        made = source.promote("/memories", team, new_path="/memories/from/ann", actor=ANN)
        assert (made.memories, made.versions) == (2, 4)
        team.create("/memories/from/ann/d", "in the way", actor=BOB)
        assert team.review.accept([made.proposal_id], actor=BOB).obstacles[0].path == "/memories/from/ann/d/b.md"
        team.delete("/memories/from/ann/d", actor=BOB)
        assert team.review.accept([made.proposal_id], actor=BOB).done == (made.proposal_id,)
        assert [each.path for each in team.memories("/memories/from")] == [
            "/memories/from/ann/a.md",
            "/memories/from/ann/d/b.md",
        ]


def test_the_memories_of_a_promotion_share_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retentive.review.promotion.MAX_BYTES", 14)
    with opened("sqlite", tmp_path) as place:
        source, team = private(place), place.store("team")
        assert source.promote(A, team, actor=ANN).versions == 1  # 8 bytes, which the two before it would double
        assert source.promote("/memories", team, new_path="/memories/all", actor=ANN).versions == 2
        source.write(A, "more than fourteen bytes\n", actor=ANN)
        with pytest.raises(InvalidInput, match="promote smaller directories"):
            source.promote("/memories", team, actor=ANN)


def test_what_is_redacted_or_hidden_is_not_carried(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as place:
        source, team = private(place), place.store("team")
        source.history.redact([source.history.log(A)[-1].id])
        source.create("/memories/evil.md", "planted\n", actor="session:evil")
        source.change_settings({"quarantine": ["session:evil"]})
        made = source.promote("/memories", team, actor=ANN)
        assert (made.memories, made.versions) == (2, 3)
        with pytest.raises(NotFound):
            source.promote("/memories/evil.md", team, actor=ANN)
        team.review.accept([made.proposal_id], actor=BOB)
        assert [each[2] for each in past(team, A)] == ["one\ntwo\n"] * 3


def test_the_guards_of_the_target_apply(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as place:
        source, team = private(place), place.store("team")
        source.change_settings({"sensitive": "off"})
        for text in (f"key {KEY}\n", "x" * 2_000, "short\n"):
            source.write(A, text, actor=ANN)
        team.change_settings({"max_memory_bytes": 1_000})
        made = source.promote(A, team, actor=ANN)
        team.review.accept([made.proposal_id], actor=BOB)
        texts = [each[2] for each in past(team, A)]
        assert [text for text in texts if KEY in text or "xxx" in text] == []
        assert any("[REDACTED:" in text for text in texts)
        team.change_settings({"read_only_paths": ["/memories/d/**"]})
        with pytest.raises(ReadOnly):
            source.promote(B, team, actor=ANN)


def test_a_refused_promotion_leaves_nothing(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path / "team") as there, opened("sqlite", tmp_path / "private") as place:
        source, team = private(place), there.store("team")
        made = source.promote(A, team, actor=ANN)
        assert team.review.refuse([made.proposal_id], actor=ANN).done == (made.proposal_id,)
        assert team.versions() == []
    raw = b"".join(each.read_bytes() for each in (tmp_path / "team").rglob("*") if each.is_file())
    assert (b"team" in raw, b"two" in raw, b"promotion of" in raw) == (True, False, False)


def test_a_repeated_promotion_has_its_first_answer_whatever_became_of_the_source(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as place, serving(place) as api:
        source, team = private(place), place.store("team")
        source.change_settings(
            {"max_memory_bytes": 0, "max_store_bytes": 0, "sensitive": "off", "sensitive_likely": "off"}
        )
        body, at = {"path": "/a.md", "to": team.id}, f"/v1/memory_stores/{source.id}/promote"
        first = api.post(at, body, **{"idempotency-key": "k"})
        source.write(A, "x\n" * (5 << 20), actor=ANN)
        assert api.post(at, body).status == 400  # it is too large now
        source.delete(A, actor=ANN)
        assert api.post(at, body).status == 404
        assert api.post(at, body, **{"idempotency-key": "k"}).body == first.body
        source.create(A, "x\n" * (5 << 20), actor=ANN)
        assert api.post(at, body, **{"idempotency-key": "k"}).body == first.body


def test_over_http_a_promotion_needs_read_here_and_write_there(tmp_path: Path) -> None:
    """The library over HTTP does it too. A store that the key may not see is one that does not exist."""
    with opened("sqlite", tmp_path) as place, serving(place) as api:
        source, team, hidden = private(place), place.store("team"), place.store("hidden")
        body, at = {"path": "/a.md", "to": team.id}, f"/v1/memory_stores/{source.id}/promote"
        reader = api.with_key("read", stores=("private", "team"))
        assert reader.post(at, body).status == 403
        writer = api.with_key("read", "write", stores=("private", "team"), principal=ANN)
        foreign, unknown = (writer.post(at, {**body, "to": to}) for to in (hidden.id, "memstore_" + "0" * 32))
        assert (foreign.status, foreign.error) == (unknown.status, unknown.error)
        assert foreign.status == 404
        found = writer.post(at, {**body, "new_path": "/new.md"}, idempotency_key="k")
        assert (found.body["memories"], found.body["versions"], found.body["path"]) == (1, 3, "/new.md")
        assert writer.post(at, {**body, "new_path": "/new.md"}, idempotency_key="k").body == found.body
        assert len(team.review.pending()) == 1
        with retentive.open(api.url, api_key=writer.key) as remote:
            mine, theirs = remote.store("private"), remote.store("team")
            assert mine.promote(B, theirs).versions == 1
            with pytest.raises(NotFound):
                mine.promote("/memories/none.md", theirs)
            with pytest.raises(InvalidInput, match="same opened location"):
                mine.promote(B, team)
        reviewer = api.with_key("review")
        accepted = reviewer.post(f"/v1/memory_stores/{team.id}/proposals/accept", {"actor": ANN})
        assert (accepted.status, len(accepted.body["done"])) == (200, 2)
        assert past(team, "/memories/new.md")[:3] == past(source, A)


def test_promote_on_the_command_line(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as place:
        private(place)
        place.store("team")
    made = here(at, "--store", "private", "promote", "a.md", "--to", "team", "--as", "new.md", "--json")
    assert (made.exit_code, json.loads(made.stdout)["versions"]) == (0, 3)
    assert "created /memories/new.md" in here(at, "--store", "team", "review", "list").stdout
    assert here(at, "--store", "private", "promote", "a.md", "--to", "none").exit_code == 3


def test_a_store_with_carried_versions_is_sound_and_restorable(tmp_path: Path) -> None:
    """The doctor, a backup, its restore to another backend and a state in the past know that they are older."""
    at, now = f"sqlite:///{tmp_path}/memory.db", [time.time() - 5 * 86_400]
    with retentive.open(at, clock=lambda: now[0], sweep=False) as place:
        source, team = private(place), place.store("team")
        now[0] += 86_400
        team.create("/memories/own.md", "own\n", actor=BOB)
        now[0] += 3 * 86_400
        source.promote(A, team, actor=ANN)
        team.review.accept(actor=BOB)
        team.history.redact([team.history.log(A)[-1].id])
        expected = past(team, A)
        steps = team.history.restore("/memories", datetime.now(UTC) - timedelta(days=3), dry_run=True).steps
        assert [(step.what, step.path) for step in steps] == [("deleted", A)]
        assert len(team.history.log(since=datetime.now(UTC) - timedelta(days=2))) == 4
    backup = str(tmp_path / "backup.tar.zst")
    for place_there, arguments in (
        (at, ["doctor"]),
        (at, ["admin", "backup", backup]),
        (str(tmp_path / "there"), ["admin", "restore-backup", backup]),
        (str(tmp_path / "there"), ["doctor"]),
    ):
        ended = here(place_there, *arguments)
        assert ended.exit_code == 0, ended.output
    with retentive.open(tmp_path / "there") as place:
        assert past(place.store("team"), A) == expected
