"""Tiers of review: what passes and what waits, and who may decide."""

from __future__ import annotations

import io
import re
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.errors import PermissionDenied
from support.commands import create, delete, edit, insert, rename
from support.console import Person
from support.http_api import Api

A, B, EVE, ANN = "/memories/a.md", "/memories/b.md", "user:eve", "user:ann"
ROOT = Path(__file__).parents[3]
Act = Callable[[Api, MemoryStore], bool]
NOTE = "Note: This change awaits review by a person. Until then only you see it."


def imported(**files: str) -> Act:
    """Import files over HTTP."""

    def act(api: Api, store: MemoryStore) -> bool:
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for name, text in files.items():
                entry = tarfile.TarInfo(f"memories/{name}.md")
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text.encode()))
        eve = api.with_key("write", principal=EVE)
        answer = eve.send("POST", f"/v1/memory_stores/{store.id}/import?overwrite=true", raw.getvalue())
        proposed: bool = answer.body["proposed"]
        return proposed

    return act


def does(*commands: object) -> Act:
    """Run commands. Return whether the last change waits."""
    return lambda _, store: NOTE in [store.execute(each, actor=EVE).text for each in commands][-1]


def undo(_: Api, store: MemoryStore) -> bool:
    store.edit(A, "two\n", "")
    return store.undo("HEAD", actor=EVE).proposed


BASIC = {
    "a new memory": create("/memories/new.md"),
    "lines inserted or appended": insert(1, "more", A),
    "a `str_replace` that only adds lines": edit("one\n", "one\nmore\n", A),
    "a line changed or removed": edit("two", "2", A),
    "a rename": rename(A, "/memories/c.md"),
    "a deletion": delete(A),
}
ROWS: dict[str, Act] = {
    **{name: does(command) for name, command in BASIC.items()},
    "a `create` over a memory (`create_overwrites`), all its lines kept": does(create(A, "zero\none\n1.5\ntwo")),
    "a `create` over a memory, a line missing": does(create(A, "one\n2\n")),
    "a restore or an undo, whatever it adds": undo,
    "an import of new files": imported(new="x\n", other="y\n"),
    "an import or a batch with one change that waits (all of it)": imported(new="x\n", a="two\none\n"),
    "more lines for a memory that an own proposal creates or changes": does(edit("two", "2", A), insert(1, "more", A)),
    "a memory at a path that an own proposal frees": does(delete(A), create(A)),
    "a memory in a directory that an own proposal makes": does(
        rename(A, "/memories/d/a.md"), create("/memories/d/b.md")
    ),
    "more lines for another memory, while an own proposal waits": does(delete(A), insert(0, "more", B)),
}


@pytest.fixture
def store(api: Api, request: pytest.FixtureRequest) -> MemoryStore:
    return api.place.opened.store(request.node.nodeid[-200:]).acting_as(ANN)


def filled(store: MemoryStore, **settings: object) -> MemoryStore:
    store.change_settings({"create_overwrites": True, **settings})
    for path, text in ((A, "one\ntwo\n"), (B, "b\n")):
        store.write(path, text, actor=ANN)
    return store


def test_what_waits_and_what_passes(api: Api) -> None:
    """The table of docs/review.md is what the last change of each row does."""
    table = {}
    for number, (name, act) in enumerate(ROWS.items()):
        found = []
        for tier in ("all", "changes", "none"):
            store = filled(api.place.opened.store(f"{number} {tier}").acting_as(ANN), review={"*": "none", EVE: tier})
            waits = act(api, store)
            found.append("waits" if waits else "passes")
            assert bool(store.review.pending()) >= waits
        table[name] = found
    tiers = r" \| (waits|passes)" * 3
    documented = re.findall(rf"^\| (.*?){tiers} \|$", (ROOT / "docs/review.md").read_text(), re.MULTILINE)
    assert {name: [*tiers] for name, *tiers in documented} == table


def test_the_longest_pattern_decides_and_of_equal_ones_the_strictest(store: MemoryStore) -> None:
    store.change_settings({"review": {"*": "all", "session:*": "changes", "session:a*": "none", "session:*b": "all"}})
    found = {actor: NOTE in store.execute(create(f"/memories/{actor[-2:]}"), actor=actor).text
             for actor in ("user:ann", "session:c", "session:a", "session:ab", "job:sweep")}  # fmt: skip
    assert found == {"user:ann": True, "session:c": False, "session:a": False, "session:ab": True, "job:sweep": False}
    store.change_settings({"review": ["session:*"]})
    assert store.settings().review == {"session:*": "all"}


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        ("a\n", "a", True), ("a\n", "\na", True), ("a\n", "b\na", False), ("a", "a\n", False), ("a", "a\nb", False),
        ("a\n", "a\nb", False), ("a\nb\n", "a\r\nb\r\n", True), ("a\nb\n", "b\na\n", True),
        ("a\n\n", "a\n", True), ("a\n", "a\n\n", False), ("a", "", True), ("\n", "", True), ("", "a", False),
        ("e\u0301\n", "\u00e9\n", True), ("a", "ab", True),
    ],
)  # fmt: skip
def test_an_addition_keeps_every_line(store: MemoryStore, before: str, after: str, *, waits: bool) -> None:
    filled(store, review={EVE: "changes"})
    store.write(A, before, actor=ANN)
    assert (NOTE in store.execute(create(A, after), actor=EVE).text) is waits


def test_space_that_a_proposal_would_free_is_not_free_yet(store: MemoryStore) -> None:
    filled(store, review={EVE: "changes"}, max_memories=2)
    assert store.execute(delete(A), actor=EVE).text.endswith(NOTE)
    assert store.execute(create("/memories/new.md"), actor=EVE).code == "too_large"
    assert len(store.memories()) == 2


def test_the_author_cannot_accept_under_any_name(api: Api, store: MemoryStore) -> None:
    """The same actor, session, key and person are one author, through the library, HTTP and the console."""
    filled(store, review=["session:*"])
    agent = api.with_key("read", "write", "review", principal=EVE, act_as=("session:*", "user:*"))
    at = f"/v1/memory_stores/{store.id}"
    block = {"type": "tool_use", "id": "t", "name": "memory", "input": edit("two", "2", A)}
    assert agent.send_as("session:s1").post(f"{at}/tool", block).status == 200
    (waiting,) = store.review.pending()
    same_person = api.with_key("read", "review", principal=EVE)
    for who in (agent, agent.send_as("user:bob"), agent.send_as("session:s2"), same_person):
        denied = who.post(f"{at}/proposals/{waiting.id}/accept", {})
        assert (denied.status, denied.error["details"]["error_code"]) == (403, "permission_denied")
        assert who.post(f"{at}/proposals/accept", {"session": "s1"}).status == 403
    store.change_settings({"review": None})
    for actor in ("session:s1", EVE):
        with pytest.raises(PermissionDenied, match="the author of a proposal cannot accept it"):
            store.review.accept([waiting.id], actor=actor)
    person = Person(api, same_person.key)
    shown = person.get(f"/console/s/{store.id}/review/{waiting.id}")
    fields = {"csrf": shown.form("/decide")["csrf"], "id": waiting.id, "decision": "accept"}
    assert person.post(f"/console/s/{store.id}/decide", fields).status == 403
    assert [each.id for each in store.review.pending()] == [waiting.id]
    assert store.review.accept(None, actor=EVE, mode="partial").obstacles[0].proposal_id == waiting.id
    reviewer = api.with_key("review", principal="user:bob")
    assert reviewer.post(f"{at}/proposals/{waiting.id}/accept", {}).status == 200
    version = store.versions(limit=1)[0]
    made = version.provenance
    assert (str(version.actor), made.accepted_by, made.api_key_id != "") == ("session:s1", "user:bob", True)
    listed = api.get(f"{at}/proposal_decisions").body["data"][0]
    assert (listed["accepted"], listed["decided_by"]["user_id"]) == (True, "bob")


def test_an_author_may_refuse_its_own_proposals_and_no_others(store: MemoryStore) -> None:
    filled(store, review=["session:*"])
    own, other = (store.create(f"/memories/{each}", "x", actor=f"session:{each}") for each in ("s1", "s2"))
    assert (own.is_proposed, other.is_proposed) == (True, True)
    with pytest.raises(PermissionDenied, match="can refuse only its own proposals"):
        store.review.refuse(None, actor="session:s1")
    assert len(store.review.refuse(proposed_by="session:s1", actor="session:s1").done) == 1
    assert [str(each.actor) for each in store.review.pending()] == ["session:s2"]


@pytest.mark.parametrize("is_remote", [False, True])
def test_one_decision_for_a_whole_session(is_remote: bool, api: Api, store: MemoryStore) -> None:
    """All or none, with the conflicts named; `partial` accepts the rest."""
    filled(store, review=["session:*", "user:eve"])
    store.execute(edit("two", "2", A), actor="session:s1")
    store.execute(create("/memories/new.md"), actor=EVE, session="s1")
    store.execute(create("/memories/other.md"), actor="session:s2")
    store.edit(A, "two", "zwei", actor=ANN)
    ids = [each.id for each in store.review.pending(session="s1")]
    assert len(ids) == 2
    with retentive.open(api.url, api_key=api.with_key("admin").key) as remote:
        review = remote.store(store.key or "").review if is_remote else store.review
        assert [each.id for each in review.pending(session="s1")] == ids
        found = review.accept(session="s1")
        assert (found.done, [each.proposal_id for each in found.obstacles]) == ((), ids[:1])
        found = review.accept(session="s1", mode="partial")
        assert (found.done, [each.path for each in found.obstacles]) == (tuple(ids[1:]), [A])
        assert review.refuse(session="s1").done == tuple(ids[:1])
        assert [each.accepted for each in review.decisions()] == [False, True]
        assert [each.session for each in review.pending()] == ["s2"]
    for body in ({}, {"session": ""}, {"ids": ids, "session": "s1"}):
        assert api.post(f"/v1/memory_stores/{store.id}/proposals/accept", body).status == 400


def test_proposals_expire_unless_a_newer_one_builds_on_them(tmp_path: Path) -> None:
    """The sweep refuses them as `job:expiry`; decisions, events and the audit log show it."""
    now = [time.time()]
    with retentive.open(f"sqlite:///{tmp_path}/m.db", clock=lambda: now[0], sweep=False) as opened:
        store = filled(opened.store(), review=[EVE], audit=True)
        for command in (edit("one", "1", A), delete(B)):
            store.execute(command, actor=EVE)
        kept, stale = store.review.pending()
        now[0] += 20 * 86_400
        store.execute(edit("two", "2", A), actor=EVE)
        assert store.sweep(accept_clock=True).proposals == ()
        now[0] += 11 * 86_400
        assert store.sweep(dry_run=True, accept_clock=True).proposals == (stale.id,)
        assert store.sweep(accept_clock=True).proposals == (stale.id,)
        assert store.review.pending()[0].id == kept.id
        (decision,) = store.review.decisions()
        assert (decision.proposal_id, decision.accepted, str(decision.by)) == (stale.id, False, "job:expiry")
        entry = next(each for each in store.audit.entries() if "proposals" in each.facts)
        assert (str(entry.actor), entry.facts["proposals"]) == ("job:expiry", [stale.id])
        store.change_settings({"proposals_expire_days": 0})
        now[0] += 1_000 * 86_400
        assert store.sweep(accept_clock=True).proposals == ()
