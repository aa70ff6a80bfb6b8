"""Changes of actors under review wait for a decision, on every backend. Other actors do not see them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

from retentive import MemoryStore, NotFound
from retentive.errors import PermissionDenied
from retentive.review import proposals
from retentive.review.proposals import AFTER, BEFORE
from retentive.review.session import DecisionOutcome, Obstacle, Proposal
from support.commands import create, delete, edit, rename, tree, view
from support.places import opened

A, B, D = "/memories/a", "/memories/b", "/memories/d"
S1, ANN = "session:s1", "user:ann"
NOTE = "Note: This change awaits review by a person. Until then only you see it."
HEADER = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"


def said(store: MemoryStore, command: object, actor: str = S1) -> str:
    return store.execute(command, actor=actor).text


def done(store: MemoryStore, command: object, actor: str = S1) -> Proposal | None:
    """Run a command that must succeed. Returns its proposal if the actor is under review."""
    reply = store.execute(command, actor=actor)
    assert not reply.is_error, reply.text
    assert (NOTE in reply.text) == (actor == S1)
    return store.review.pending()[-1] if actor == S1 else None


def proposed(store: MemoryStore, command: object) -> str:
    found = done(store, command)
    assert found is not None
    return found.id


def with_review(backend: str, directory: Path) -> Iterator[MemoryStore]:
    with opened(backend, directory, actor=ANN) as place:
        store = place.store()
        store.change_settings({"review": ["session:*"]})
        yield store


@pytest.fixture
def store(backend: str, tmp_path: Path) -> Iterator[MemoryStore]:
    yield from with_review(backend, tmp_path)


def test_accepted_changes_are_made_by_their_author(store: MemoryStore) -> None:
    """The decision covers all kinds of changes. The history names the author, and the decision names the reviewer."""
    for path in (A, f"{D}/x", f"{D}/y"):
        done(store, create(path, "one\n"), ANN)
    ids = [
        proposed(store, each)
        for each in (
            create(B, "b\n"),
            edit("b", "c", B),
            edit("one", "two"),
            rename(D, "/memories/e"),
            edit("one", "three", "/memories/e/x"),
            delete("/memories/e/y"),
        )
    ]
    seen = said(store, view("/memories"))
    assert tree(store) == {A: "one\n", f"{D}/x": "one\n", f"{D}/y": "one\n"}
    assert store.review.accept(ids, actor=ANN) == DecisionOutcome(done=tuple(ids))
    assert tree(store) == {A: "two\n", B: "c\n", "/memories/e/x": "three\n"}
    assert said(store, view("/memories"), ANN) == said(store, view("/memories")) == seen
    assert [str(version.actor) for version in store.versions()] == [S1] * 7 + [ANN] * 3
    assert store.review.pending() == []
    found = store.review.decisions()
    assert {(each.proposal_id, each.accepted, str(each.actor), str(each.by)) for each in found} == {
        (each, True, S1, ANN) for each in ids
    }
    assert store.review.accept(ids, actor=ANN) == DecisionOutcome(already=tuple(ids))


def test_refused_changes_are_discarded(store: MemoryStore) -> None:
    """Refusing a proposal also discards all proposals that depend on it. The actor sees the present state again."""
    done(store, create(text="one\n"), ANN)
    first, second, third, apart = (
        proposed(store, each)
        for each in (edit("one", "two"), edit("two", "three"), rename(A, "/memories/c"), create(B, "text\n"))
    )
    assert store.review.refuse([second], actor=ANN) == DecisionOutcome(done=(second,), with_them=(third,))
    assert said(store, view()).endswith("1\ttwo")
    assert [each.id for each in store.review.pending(actor=S1)] == [first, apart]
    assert store.review.refuse([first, apart], actor=ANN).done == (first, apart)
    assert store.review.refuse([first], actor=ANN) == DecisionOutcome(already=(first,))
    assert said(store, view("/memories")) == said(store, view("/memories"), ANN) == f"{HEADER}\n4B\t/memories\n4B\t{A}"
    against = store.review.accept([first], actor=ANN)
    assert against.obstacles == (Obstacle(first, None, "the proposal was already refused by user:ann"),)


def test_a_dependent_proposal_is_accepted_with_or_after_its_base(store: MemoryStore) -> None:
    """A dependent proposal changes the same memory, or it uses a path that its base proposal frees."""
    done(store, create(text="one\n"), ANN)
    deleted, again, edited = (
        proposed(store, each) for each in (delete(), create(f"{A}/b", "text\n"), edit("x", "y", f"{A}/b"))
    )
    found = store.review.accept([edited], actor=ANN)
    text = f"the proposal builds on {deleted}, {again}, which must be accepted first or in the same call"
    assert found == DecisionOutcome(obstacles=(Obstacle(edited, None, text),))
    assert store.review.accept([deleted], actor=ANN).done == (deleted,)
    assert store.review.accept([edited, again], actor=ANN).done == (again, edited)
    assert tree(store) == {f"{A}/b": "teyt\n"}


def obstacles(
    store: MemoryStore, ids: list[str], mode: Literal["refuse", "merge", "force"] = "refuse"
) -> list[tuple[str | None, str]]:
    """Try an acceptance and return its conflicts. If there are any, check that nothing changed."""
    before, waiting = tree(store), store.review.pending()
    found = store.review.accept(ids, actor=ANN, mode=mode)
    if found.obstacles:
        assert found == DecisionOutcome(obstacles=found.obstacles)
        assert (tree(store), store.review.pending()) == (before, waiting)
    return [(each.path, each.text) for each in found.obstacles]


def test_a_proposed_edit_conflicts_with_a_newer_edit(store: MemoryStore) -> None:
    """With `merge`, the edits are merged by line if possible. With `force`, the proposed text is written."""
    done(store, create(text="1\n2\n3\n4\n5\n"), ANN)
    edited, other = proposed(store, edit("1", "one")), proposed(store, create(B, "text\n"))
    done(store, edit("5", "five"), ANN)
    assert said(store, view()).endswith("1\tone\n     2\t2\n     3\t3\n     4\t4\n     5\t5")
    assert obstacles(store, [edited, other]) == [(A, f"{A}: a later change modified the text")]
    assert obstacles(store, [edited, other], "merge") == []
    assert tree(store) == {A: "one\n2\n3\n4\nfive\n", B: "text\n"}
    edited = proposed(store, edit("3", "drei"))
    done(store, edit("3", "three"), ANN)
    assert obstacles(store, [edited], "merge") == [(A, f"{A}: a later change modified the same lines (from line 3)")]
    assert obstacles(store, [edited], "force") == []
    assert tree(store)[A] == "one\n2\ndrei\n4\nfive\n"


def test_what_has_no_obstacle_can_be_accepted_alone(store: MemoryStore) -> None:
    """With `partial`. Proposals that build on one with an obstacle wait too."""
    done(store, create(text="1\n2\n"), ANN)
    edited, on_it, other = (proposed(store, each) for each in (edit("1", "one"), edit("2", "two"), create(B, "text\n")))
    done(store, edit("1", "eins"), ANN)
    assert store.review.accept(None, actor=ANN).done == ()
    found = store.review.accept(None, actor=ANN, mode="partial")
    assert found.done == (other,)
    assert [each.proposal_id for each in found.obstacles] == [edited, on_it]
    assert tree(store) == {A: "eins\n2\n", B: "text\n"}
    assert [each.id for each in store.review.pending()] == [edited, on_it]
    assert store.review.accept([edited], actor=ANN, mode="partial").done == ()


def test_a_proposed_create_conflicts_with_a_new_memory(store: MemoryStore) -> None:
    """The author sees the own proposal at this path, and not the new memory."""
    ids = [proposed(store, create(path, "mine\n")) for path in (A, f"{B}/x", D)]
    for path in (A, B, f"{D}/y"):
        done(store, create(path, "theirs\n"), ANN)
    assert said(store, view("/memories")) == f"{HEADER}\n15B\t/memories\n5B\t{A}\n5B\t{B}/\n5B\t{B}/x\n5B\t{D}"
    assert said(store, view(D)).endswith("1\tmine")
    assert said(store, view(f"{D}/y")).startswith("The path")
    built = proposed(store, edit("mine", "MINE"))
    assert obstacles(store, [*ids, built], "merge") == [
        (path, f"{path}: the memory {there} blocks this path") for path, there in ((A, A), (f"{B}/x", B), (D, f"{D}/y"))
    ]
    assert obstacles(store, ids, "force") == []
    assert obstacles(store, [built]) == []
    assert tree(store) == {A: "MINE\n", f"{B}/x": "mine\n", D: "mine\n"}


def test_proposed_deletes_and_renames_keep_newer_memories(store: MemoryStore) -> None:
    """Memories that are not in the proposal stay, even with `force`."""
    for name in ("edited", "gone", "moved", "same"):
        done(store, create(f"{D}/{name}", "one\n"), ANN)
    deleted = proposed(store, delete(D))
    assert said(store, view("/memories")) == f"{HEADER}\n0B\t/memories"
    done(store, edit("one", "two", f"{D}/edited"), ANN)
    done(store, delete(f"{D}/gone"), ANN)
    done(store, rename(f"{D}/moved", A), ANN)
    done(store, create(f"{D}/new", "new\n"), ANN)
    assert said(store, view("/memories")) == f"{HEADER}\n4B\t/memories\n4B\t{D}/\n4B\t{D}/new"
    assert obstacles(store, [deleted], "merge") == [
        (path, f"{path}: a later change modified the memory") for path in (f"{D}/edited", f"{D}/moved")
    ]
    assert obstacles(store, [deleted], "force") == []
    assert tree(store) == {f"{D}/new": "new\n"}


def test_guards_check_the_proposal_and_the_acceptance(store: MemoryStore) -> None:
    store.change_settings({"max_memories": 2, "max_memory_bytes": 10, "read_only_paths": [D]})
    assert said(store, create(f"{D}/x", "text\n")) == f"Error: {D}/x is read-only"
    assert said(store, create(text="password: hunter2horse\n" + "x" * 9)).startswith(f"Error: {A} would hold")
    first, second = proposed(store, create(text="123456789")), proposed(store, create(B, "two"))
    assert said(store, create("/memories/c", "text\n")).startswith(
        "Error: The memory store holds 2 memories and its limit is 2."
    )
    store.change_settings({"max_memories": 1, "read_only_paths": None, "allow_write": {"session:*": [A]}})
    assert obstacles(store, [second]) == [(B, f"Error: {B} is read-only")]
    store.change_settings({"allow_write": None})
    assert [path for path, _ in obstacles(store, [first, second])] == [B]
    store.change_settings({"max_memories": None})
    assert obstacles(store, [first, second]) == []


def test_one_actor_cannot_fill_the_proposals_of_others(store: MemoryStore) -> None:
    """The actor reaches its own limit first, and the reply names that limit."""
    store.change_settings({"max_proposals": 4, "max_proposals_each": 2})
    proposed(store, create(text="text\n"))
    second = proposed(store, create(B, "text\n"))
    refused = store.execute(create(D, "text\n"), actor="session:s1")
    assert (refused.code, refused.text) == (
        "too_large",
        (
            "Error: 2 of your changes to this memory store await review by a person; the limit for each actor is 2. "
            "Nothing was written. Try again after some of them have been reviewed."
        ),
    )
    assert said(store, create(D, "text\n"), "session:s2").endswith(NOTE)
    store.review.refuse([second], actor=ANN)
    assert said(store, create(B, "text\n")).endswith(NOTE)
    store.change_settings({"max_proposals_each": 0})
    assert said(store, create("/memories/e", "text\n")).endswith(NOTE)
    assert "; the limit is 4." in said(store, create("/memories/f", "text\n"))


def test_an_actor_under_review_cannot_decide(store: MemoryStore) -> None:
    waiting = proposed(store, create(text="text\n"))
    for decide in (store.review.accept, store.review.refuse):
        with pytest.raises(PermissionDenied, match="changes by session:s2 need review"):
            decide([waiting], actor="session:s2")
        with pytest.raises(PermissionDenied, match="read-only"):
            getattr(store.read_only().review, decide.__name__)([waiting], actor=ANN)
        with pytest.raises(NotFound, match="no proposal prop_none that awaits"):
            decide([waiting, "prop_none"], actor=ANN)
    assert [each.id for each in store.review.pending()] == [waiting]


def test_the_current_setting_applies(store: MemoryStore) -> None:
    """An actor that is no longer under review does not see its proposals, which stay pending.

    Jobs are never under review.
    """
    waiting = proposed(store, create(text="text\n"))
    store.change_settings({"review": None})
    assert said(store, view()).startswith("The path")
    assert said(store, create(B, "text\n")) == f"File created successfully at: {B}"
    store.change_settings({"review": ["*"]})
    assert said(store, create(D, "text\n"), "job:expiry") == f"File created successfully at: {D}"
    assert store.execute(create("/memories/c", "text\n"), actor=ANN).text.endswith(NOTE)
    assert said(store, view()).startswith("Here's")
    store.change_settings({"review": ["session:*"]})
    assert store.review.accept([waiting], actor=ANN).done == (waiting,)
    assert sorted(tree(store)) == [A, B, D]


def test_unnamed_actors_are_one_actor(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path, review=["*"]) as place:
        store = place.store()
        assert store.execute(create(text="text\n")).text.endswith(NOTE)
        assert store.execute(view()).text.startswith("Here's")
        assert store.execute(view(), actor=ANN).is_error
        with pytest.raises(PermissionDenied, match="changes by an actor without a name need review"):
            store.review.accept([store.review.pending()[0].id], actor=None)


def test_an_external_edit_is_a_change_of_another_actor(tmp_path: Path) -> None:
    for store in with_review("directory", tmp_path):
        done(store, create(text="one\n"), ANN)
        edited, deleted = proposed(store, edit("one", "two")), proposed(store, delete())
        file = Path(str(store.directory())) / "a"
        assert file.read_text() == "one\n"
        file.write_text("by hand\n")
        assert said(store, view()).startswith("The path")
        assert obstacles(store, [edited]) == [(A, f"{A}: a later change modified the text")]
        assert obstacles(store, [edited, deleted], "force") == []
        assert not file.exists()
        assert [str(version.actor) for version in store.versions(A)] == [S1, S1, "job:external", ANN]


def test_concurrent_acceptance_applies_each_proposal_once(store: MemoryStore) -> None:
    """A proposal that was accepted cannot be refused afterwards; the conflict says so."""
    ids = [proposed(store, create(f"{D}/{number}", f"{number}\n")) for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: store.review.accept([each], actor=ANN), ids * 4))
    assert sorted(each for outcome in found for each in outcome.done) == sorted(ids)
    assert sum(len(outcome.already) for outcome in found) == 3 * len(ids)
    assert len(list(store.versions())) == len(ids)
    late = store.review.refuse([ids[0]], actor=ANN)
    assert late.obstacles == (Obstacle(ids[0], None, "the proposal was already accepted by user:ann"),)


def test_the_texts_of_a_proposal(store: MemoryStore) -> None:
    done(store, create(text="one\n"), ANN)
    for command in (edit("one", "two"), rename(A, B), delete(B), create(text="new\n")):
        proposed(store, command)
    shown = [
        [(str(change), before, after) for change, before, after in store.review.show(proposal.id)[1]]
        for proposal in store.review.pending()
    ]
    assert shown == [
        [(f"modified {A}", "one\n", "two\n")],
        [(f"renamed {A} to {B}", "one\n", "one\n")],
        [(f"deleted {B}", "one\n", None)],
        [(f"created {A}", None, "new\n")],
    ]
    last = store.review.pending()[-1]
    assert store.review.show(last.id)[0] == last
    store.review.refuse([last.id], actor=ANN)
    with pytest.raises(NotFound):
        store.review.show(last.id)


def test_removals_remove_the_proposals_that_build_on_a_text(store: MemoryStore) -> None:
    """A redaction those that are based on the redacted text, an erasure all of the memory; with their texts."""
    for path in (A, B):
        done(store, create(path, "one\n"), ANN)
    kept = proposed(store, edit("one", "two", B))
    proposed(store, edit("one", "two"))
    proposed(store, edit("two", "three"))
    base = store.load(A)[0].version_id
    done(store, edit("one", "1"), ANN)
    store.history.redact([base])
    assert [each.id for each in store.review.pending()] == [kept]
    proposed(store, rename(A, "/memories/c"))
    store.history.erase(A)
    assert [each.id for each in store.review.pending()] == [kept]
    keys = store._core.read(lambda found: [key for kind in (AFTER, BEFORE) for key, _ in found.records(kind)])
    assert keys == [f"{kept}.0"] * 2


def test_only_the_newest_decisions_are_kept(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "MAX_DECISIONS", 3)
    ids = [proposed(store, create(f"{D}/{number}", "text\n")) for number in range(5)]
    for each in (*reversed(ids[1:]), ids[0]):
        store.review.refuse([each], actor=ANN)
    assert [each.proposal_id for each in store.review.decisions()] == [ids[0], ids[1], ids[2]]


def test_an_accepted_undo_keeps_its_cause(store: MemoryStore) -> None:
    done(store, create(text="one\n"), ANN)
    done(store, edit("one", "two"), ANN)
    assert store.undo("r2", actor=S1).proposed
    (waiting,) = store.review.pending()
    assert store.review.accept([waiting.id], actor=ANN).done == (waiting.id,)
    assert store.history.log(A)[0].provenance.cause == "undo of r2"
    done(store, edit("one", "three"), ANN)
    assert store.history.log(A)[0].provenance.cause == ""


def test_undo_under_review_waits(store: MemoryStore) -> None:
    """Accepting the undo of a deletion restores the same memory."""
    done(store, create(text="one\n"), ANN)
    memory, _ = store.load(A)
    done(store, delete(), ANN)
    outcome = store.history.restore(A, memory.version_id, actor=S1)
    assert (outcome.done, outcome.proposed, len(outcome.steps)) == (False, True, 1)
    assert said(store, view()).endswith("1\tone")
    done(store, edit("one", "two"))
    assert tree(store) == {}
    ids = [each.id for each in store.review.pending()]
    assert store.review.accept(ids[:1], actor=ANN).done == (ids[0],)
    assert store.load(A)[0].id == memory.id
    assert store.review.accept(ids[1:], actor=ANN).done == (ids[1],)
    assert tree(store) == {A: "two\n"}


def test_no_byte_of_a_refused_text_is_left(tmp_path: Path) -> None:
    """After a purge of the backend, neither the database file nor its log contains the text."""
    file, secret = tmp_path / "memory.db", "poison-7d1f3a"
    for store in with_review("sqlite", tmp_path):
        done(store, create(text="one\n"), ANN)
        proposed(store, edit("one", secret))
        proposed(store, create(f"/memories/{secret}", secret * 2_000))
        assert secret.encode() in all_bytes(file)
        store.review.refuse([each.id for each in store.review.pending()], actor=ANN)
        assert store._core.backend.purge()
        assert secret.encode() not in all_bytes(file)
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT count(*) FROM records WHERE kind LIKE 'proposal%'").fetchall() == [(0,)]
    database.close()


def all_bytes(file: Path) -> bytes:
    return b"".join(each.read_bytes() for each in file.parent.iterdir() if each.name.startswith(file.name))
