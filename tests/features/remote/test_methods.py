"""A memory store on a server has the methods, the types and the errors of a local one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import retentive
from retentive import MemoryStore, Retentive, errors
from retentive.engine.lists import ListedDirectory, ListedMemory
from support.http_api import Api

A, B = "/memories/a.md", "/memories/d/ü b.md"


def plain(value: Any) -> Any:
    """A value without what only the storage knows."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [plain(each) for each in value]
    if isinstance(value, retentive.Memory):
        return replace(value, seal=None, provenance_text=None)
    return replace(value, seal=None) if isinstance(value, retentive.Version) else value


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(errors.RetentiveError) as raised:
        call()
    return str(raised.value)


READS: dict[str, Callable[[MemoryStore], Any]] = {
    "read": lambda store: store.read(B),
    "load": lambda store: store.load(A),
    "view a memory": lambda store: store.view(A, view_range=(1, 1)),
    "view a directory": lambda store: store.view(),
    "memories": lambda store: store.memories(),
    "memories of a directory": lambda store: store.memories("/memories/d"),
    "versions": lambda store: store.versions(),
    "versions of a path": lambda store: store.versions(B),
    "newest versions": lambda store: store.versions(limit=2),
    "version_text": lambda store: store.version_text(store.versions()[-1].id),
    "usage": lambda store: store.usage(),
    "settings": lambda store: store.settings(),
    "by_id.get": lambda store: store.by_id.get(store.memories()[0].id),
    "log": lambda store: store.history.log(),
    "log of a memory": lambda store: store.history.log(A),
    "log of a directory": lambda store: store.history.log("/memories/d"),
    "log of a path that was renamed": lambda store: store.history.log("/memories/old.md"),
    "log of an actor": lambda store: store.history.log(actor="user:*"),
    "log of a kind": lambda store: store.history.log(operation="created"),
    "log until a time": lambda store: store.history.log(until=datetime(2026, 1, 1, tzinfo=UTC)),
    "changes": lambda store: [
        (each.id, each.actor, each.at, plain(each.versions), each.moved_from) for each in store.history.changes()
    ],
    "changes of a path that never was": lambda store: refusal(lambda: store.history.changes("/memories/typo")),
    "show": lambda store: store.history.show(store.versions()[0].id),
    "show HEAD of a path": lambda store: store.history.show("HEAD~1", A),
    "show a change": lambda store: store.history.show(f"r{store.versions()[0].revision}"),
    "diff": lambda store: store.history.diff(store.versions(A)[1].id, store.versions(A)[0].id),
    "differences of a change": lambda store: [
        (plain(each.old), plain(each.new), each.old_text, each.new_text)
        for each in store.history.differences(change="HEAD").found
    ],
    "differences of two versions": lambda store: [
        (each.old_text, each.new_text)
        for each in store.history.differences(since=store.versions()[-1].id, until=store.versions()[0].id).found
    ],
    "dry run of an undo": lambda store: [
        (each.what, each.path) for each in store.undo("HEAD", path=A, dry_run=True).steps
    ],
    "changes that an undo reverts": lambda store: [
        (each.id, each.actor, plain(each.versions), each.moved_from)
        for each in store.undo_by("session:*", mode="force", dry_run=True).undone
    ],
    "log by source": lambda store: store.history.log(source="web:*"),
    "log by session": lambda store: store.history.log(session="s*"),
    "log by integration": lambda store: store.history.log(integration="http"),
    "log by flag": lambda store: store.history.log(flag="pass*"),
    "log by trust": lambda store: store.history.log(trust="unconfirmed"),
    "blame": lambda store: plain([(each.number, each.text, each.version) for each in store.history.blame(B)]),
    "blame by source": lambda store: [(each.number, each.text) for each in store.history.blame(B, source="web:*")],
    "blame by trust": lambda store: [(each.number, each.text) for each in store.history.blame(B, trust="trusted")],
    "blame of nothing": lambda store: refusal(lambda: store.history.blame("/memories/none")),
    "feed": lambda store: (plain(store.history.feed().items), store.history.feed().next, store.history.feed().has_gap),
    "feed after a change": lambda store: plain(store.history.feed(store.history.feed(limit=2).next, limit=3).items),
    "newest": lambda store: store.history.newest(),
    "citations": lambda store: store.citations(),
    "citations of a memory": lambda store: store.citations(A),
    "stale citations": lambda store: store.citations("/memories/d", states=["orphaned"]),
    "verify": lambda store: [replace(each, verified_at=None) for each in store.verify("src", dry_run=True)],
    "no proposals": lambda store: store.review.pending(),
    "search": lambda store: store.search("which lines are three?"),
    "search for a phrase": lambda store: store.search('"password is" path:d by:*', limit=1),
    "search for nothing but the number": lambda store: store.search("two", limit=0),
    "search in all texts": lambda store: store.search("one three", mode="all"),
    "search for a pattern": lambda store: store.search("hunt[a-z]r", regex=True),
    "search in a directory": lambda store: store.search("two", under="/memories/d"),
    "search by paths": lambda store: store.search("two", paths=["/memories/*.md"]),
    "search by source and trust": lambda store: store.search("two", source="web:*", trust="unconfirmed"),
    "search in the history": lambda store: store.search("one", history=True),
    "search of the past": lambda store: store.search("three", at=store.versions()[-1].id),
    "search for unknown words": lambda store: store.search("twoo lines"),
    "doubted": lambda store: plain(store.trust.doubted()),
    "doubted of a directory and a level": lambda store: plain(store.trust.doubted("/memories/d", level="quarantined")),
}


@pytest.mark.parametrize("name", READS)
def test_reads_are_those_of_the_library(name: str, store: MemoryStore, local: MemoryStore) -> None:
    store.change_settings({"audit": True, "trust": {"source:web:*": "unconfirmed"}})
    store.create("/memories/old.md", "one\n", actor="user:ann")
    store.rename("/memories/old.md", A, actor="session:s1")
    store.write(B, "two\r\nlines \U0001f600", source="web:ü.example", session="s9")
    store.append(B, "The password is hunter2.", source="user")
    store.append(A, "three [source: retentive/py.typed] [source: /memories/none.md]")
    store.verify("src")
    before = local.versions(limit=1)
    assert plain(READS[name](store)) == plain(READS[name](local))
    assert local.versions(limit=1) == before


WRONG: dict[str, Callable[[MemoryStore], Any]] = {
    "create again": lambda store: store.create(A, "x"),
    "create below": lambda store: store.create(f"{A}/b", "x"),
    "create outside": lambda store: store.create("/etc/passwd", "x"),
    "create a directory": lambda store: store.create("/memories/x/", "x"),
    "create with NUL": lambda store: store.create("/memories/x", "\0"),
    "create with a surrogate": lambda store: store.create("/memories/x", "\ud800"),
    "path of a wrong type": lambda store: store.create(3, "x"),  # type: ignore[arg-type]
    "text of a wrong type": lambda store: store.create("/memories/x", 3),  # type: ignore[arg-type]
    "write a stale version": lambda store: store.write(A, "x", if_version=""),
    "edit without a match": lambda store: store.edit(A, "none", "x"),
    "edit with two matches": lambda store: store.edit(A, "e", "x"),
    "edit nothing": lambda store: store.edit("/memories/none", "e", "x"),
    "insert too far": lambda store: store.insert(A, 99, "x"),
    "delete the root": lambda store: store.delete("/memories"),
    "delete nothing": lambda store: store.delete("/memories/none"),
    "rename into itself": lambda store: store.rename("/memories/d", "/memories/d/e"),
    "read nothing": lambda store: store.read("/memories/none"),
    "read the root": lambda store: store.read("/memories"),
    "view nothing": lambda store: store.view("/memories/none"),
    "view out of range": lambda store: store.view(A, view_range=(9, 10)),
    "too large": lambda store: store.write(A, "x" * 200_000),
    "actor of a wrong kind": lambda store: store.write(A, "x", actor="robot:r"),
    "setting of a wrong value": lambda store: store.change_settings({"view_chars": "x"}),
    "unknown setting": lambda store: store.change_settings({"nothing": 1}),
    "version that does not exist": lambda store: store.history.show("memver_" + "f" * 32),
    "memory that does not exist": lambda store: store.by_id.get("mem_" + "f" * 32),
    "search for no pattern": lambda store: store.search("(", regex=True),
    "search outside": lambda store: store.search("x", under="/tmp"),
    "negative limit of a search": lambda store: store.search("x", limit=-1),
    "negative limit of a log": lambda store: store.history.log(limit=-1),
    "negative limit of changes": lambda store: store.history.changes(limit=-1),
    "confirm nothing": lambda store: store.trust.confirm("/memories/none"),
    "quarantine of no pattern": lambda store: store.trust.quarantine("source:"),
    "proposal that does not exist": lambda store: store.review.show("prop_" + "f" * 32),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_the_library(name: str, store: MemoryStore, local: MemoryStore) -> None:
    store.change_settings({"max_memory_bytes": 100_000})
    store.create(A, "one\ntwelve\n")
    store.create(B, "x")
    with pytest.raises(errors.RetentiveError) as remote_error:
        WRONG[name](store)
    with pytest.raises(errors.RetentiveError) as local_error:
        WRONG[name](local)
    found, expected = remote_error.value, local_error.value
    assert (type(found), found.code, str(found)) == (type(expected), expected.code, str(expected))
    assert found.conflicting == expected.conflicting


@pytest.mark.parametrize(
    "command", [None, "view", 3, {"command": "view", "path": float("nan")}, {"command": "create", "path": "\ud800"},
                {"command": "view", "path": A, "view_range": (1, 10**5000)}, {"command": "nothing", "x": object()},
                {"command": "create", "path": A, "file_text": {1, 2}}],
)  # fmt: skip
def test_replies_to_what_is_no_command(store: MemoryStore, local: MemoryStore, command: object) -> None:
    assert store.execute(command) == local.execute(command)


def test_changes_and_what_they_return(store: MemoryStore, local: MemoryStore) -> None:
    made = store.create(A, "one\n", actor="user:ann", source="user", session="s1")
    memory = local.load(A)[0]
    assert (made.path, made.memory_id, made.version_id, made.memories) == (A, memory.id, memory.version_id, 1)
    assert (str(local.versions()[0].actor), memory.provenance.source) == ("user:ann", "user")
    same = store.write(A, "one\n")
    assert (same.memories, same.version_id) == (0, memory.version_id)
    store.insert(A, 0, "zero")
    store.edit(A, "one", "1", if_version=local.load(A)[0].version_id)
    assert local.read(A) == "zero\n1\n"
    assert store.undo(local.versions()[0].id).done
    assert store.undo("HEAD", path=A).steps[0].what == "changed"
    conflict = store.undo(made.version_id, dry_run=True)
    assert [(each.path, each.memory_id) for each in conflict.conflicts] == [(A, memory.id)]
    assert store.history.restore("/memories", made.version_id).done
    assert local.read(A) == "one\n"
    assert store.undo_by("user:*", mode="force").done
    assert local.memories() == []
    store.create(B, "x")
    store.create("/memories/d/c.md", "x")
    assert store.delete("/memories/d").memories == 2
    assert store.clear().is_error is False


def test_pages_of_memories(store: MemoryStore) -> None:
    for name in ("a", "b", "c", "d/e", "d/f"):
        store.create(f"/memories/{name}", name)
    found: list[str] = []
    page = store.list_memories(depth=1, limit=2, texts=True)
    while True:
        found += [each.path if isinstance(each, ListedDirectory) else f"{each.memory.path}={each.text}"
                  for each in page.items]  # fmt: skip
        if page.next is None:
            break
        page = store.list_memories(depth=1, limit=2, texts=True, cursor=page.next)
    assert found == ["/memories/a=a", "/memories/b=b", "/memories/c=c", "/memories/d/"]
    listed = store.list_memories("/memories/d").items
    assert [each.memory.path for each in listed if isinstance(each, ListedMemory)] == ["/memories/d/e", "/memories/d/f"]


def test_origins_of_changes_of_the_history(store: MemoryStore, local: MemoryStore) -> None:
    """`undo` and `restore` record the source and the session too."""
    store.create(A, "one", source="user", session="s1")
    store.write(A, "two", source="tool:x", session="s2")
    store.undo("HEAD", source="web:a", session="s3")
    store.history.restore(A, "HEAD~1", source="web:b")
    store.history.undo_own(source="web:c")
    found = [(each.provenance.source, each.provenance.session) for each in local.versions()]
    assert found == [("web:c", ""), ("web:b", ""), ("web:a", "s3"), ("tool:x", "s2"), ("user", "s1")]
    assert [(each.provenance.source, each.provenance.session) for each in store.versions()] == found


def test_redact_all_of_a_path(store: MemoryStore, local: MemoryStore) -> None:
    for text in ("one", "two", "three"):
        store.write(A, text)
    store.write(B, "x")
    assert store.history.redact(all_of=A).versions == 2
    assert store.history.redact(all_of=A).versions == 0
    assert [each.redacted_at is not None for each in local.versions()] == [False, False, True, True]
    assert refusal(lambda: store.history.redact(all_of="/memories/none")) == "/memories/none has no versions"
    newest = store.versions()[0].id
    assert refusal(lambda: store.history.redact([newest])).startswith(newest)


def test_redact_and_erase(store: MemoryStore, local: MemoryStore) -> None:
    first = store.create(A, "one")
    store.write(A, "two")
    assert store.history.redact([first.version_id]).versions == 1
    assert local.versions()[-1].redacted_at is not None
    assert store.history.show(first.version_id)[1] is None
    with pytest.raises(errors.InvalidInput, match="redacted"):
        store.history.diff(first.version_id, store.versions()[0].id)
    assert store.history.erase(A).versions == 3
    assert local.memories() == []


def test_review(api: Api, store: MemoryStore, local: MemoryStore) -> None:
    store.change_settings({"review": ["session:*"]})
    assert store.create(A, "one", actor="session:s1").is_proposed
    store.create(B, "two", actor="session:s2")
    proposal = store.review.pending(actor="session:s1")[0]
    assert (proposal.summary, str(proposal.actor)) == (f"created {A}", "session:s1")
    assert [texts[1:] for texts in store.review.show(proposal.id)[1]] == [(None, "one")]
    with pytest.raises(errors.PermissionDenied, match="the author of a proposal"):
        store.review.accept([proposal.id], actor=None)  # the same key
    with retentive.open(api.url, api_key=api.with_key("admin").key) as other:
        review = other.store(store.key or "").review
        assert review.accept([proposal.id], actor=None).done == (proposal.id,)
        assert review.accept([proposal.id], actor=None).already == (proposal.id,)
        assert review.refuse(review.pending()[0].id, actor=None).with_them == ()
        assert review.accept(None, actor=None).done == ()
    assert [each.path for each in local.memories()] == [A]


def test_reads_are_those_of_the_actor(store: MemoryStore, local: MemoryStore) -> None:
    """An actor under review sees its own proposals, in lists too."""
    store.change_settings({"review": ["session:*"]})
    own = store.acting_as("session:s1")
    own.create(A, "one")
    assert [each.path for each in own.memories()] == [each.path for each in local.acting_as("session:s1").memories()]
    assert ([each.path for each in own.memories()], store.memories()) == ([A], [])
    assert own.load(A)[1] == "one"


def test_a_promotion_between_locations_is_refused(store: MemoryStore, local: MemoryStore) -> None:
    for own, other in ((store, local), (local, store)):
        said = refusal(lambda own=own, other=other: own.promote(A, other))  # type: ignore[misc]
        assert said == "both memory stores of a promotion must be in the same opened location"


def test_trust(store: MemoryStore, local: MemoryStore) -> None:
    store.change_settings({"trust": {"session:*": "unconfirmed"}})
    store.create(A, "one", actor="session:s1")
    assert store.trust.confirm(A, actor="user:ann") == [A]
    assert local.trust.doubted() == []
    assert [store.trust.quarantine("session:s1") for _ in range(2)] == [True, False]
    assert local.settings().quarantine == ("session:s1",)
    assert [store.trust.release("session:s1") for _ in range(2)] == [True, False]


def test_stores(remote: Retentive, api: Api) -> None:
    made = remote.create_store("Support", description="notes", metadata={"a": "1"}, key="team 7/ü")
    assert remote.create_store("Other", key="team 7/ü").id == made.id
    assert remote.store("team 7/ü").id == remote.store(made.id).id == made.id
    remote.store(made.id).create(A, "one")
    changed = remote.update_store(made.id, name="Help", metadata={"a": None, "b": "2"})
    expected = api.place.opened.get_store(made.id)
    for name in ("id", "key", "name", "description", "metadata", "created_at", "memories", "size_bytes"):
        assert getattr(changed, name) == getattr(expected, name), name
    assert (changed.name, changed.description, changed.metadata) == ("Help", "notes", {"b": "2"})
    assert made.id in [each.id for each in remote.stores()]
    assert [each.id for each in remote.list_stores(limit=1).items] == [remote.stores()[-1].id]
    at = made.created_at
    assert made.id in [each.id for each in remote.list_stores(created_from=at).items]
    assert made.id not in [each.id for each in remote.list_stores(created_to=at - timedelta(seconds=1)).items]
    assert made.id not in [each.id for each in remote.list_stores(created_from=at + timedelta(seconds=1)).items]
    assert remote.archive_store("team 7/ü").archived_at is not None
    with pytest.raises(errors.Archived):
        remote.store(made.id).write(A, "two")
    remote.erase(made.id)
    for wrong in (made.id, "memstore_" + "f" * 32):
        with pytest.raises(errors.NotFound):
            remote.store(wrong)


def test_a_new_key_of_a_store_needs_an_admin(api: Api) -> None:
    writer = retentive.open(api.url, api_key=api.with_key("read", "write").key)
    with writer, pytest.raises(errors.NotFound, match="is not allowed to create it"):
        writer.store("new for a writer")
    admin = retentive.open(api.url, api_key=api.key, create=False)
    with admin, pytest.raises(errors.NotFound, match="no memory store 'nothing'"):
        admin.store("nothing")


def test_an_actor_that_the_key_does_not_allow(api: Api, store: MemoryStore) -> None:
    with retentive.open(api.url, api_key=api.with_key("read", "write").key) as opened:
        reply = opened.store(store.id).acting_as("user:ann").execute({"command": "view", "path": "/memories"})
    assert (reply.is_error, reply.code) == (True, "permission_denied")
    store.acting_as("user:ü").create(A, "one")
    assert str(store.versions()[0].actor) == "user:ü"


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.scan(),
        lambda store: store.sweep(),
        lambda store: store.audit.entries(),
        lambda store: store.audit.verify(),
        lambda store: store.history.page(),
        lambda store: store.history.text_at(A, "HEAD"),
        lambda store: store.by_id.update("mem_x", text="x"),
        lambda store: store.trust.page(),
    ],
)
def test_what_needs_the_storage_says_so(store: MemoryStore, call: Callable[[MemoryStore], Any]) -> None:
    with pytest.raises(errors.InvalidInput, match="not available over HTTP"):
        call(store)
