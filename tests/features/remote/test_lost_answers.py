"""Every method that changes something, over a connection that is cut after the server has committed.

The client sends the request again: the reply is that of an uncut connection, and the change is made once.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

import retentive
from faults.network.faults import Fault, Plan
from retentive import MemoryStore, Retentive
from retentive.errors import OutcomeUnknown
from retentive.remote.location import RemoteLocation
from retentive.remote.store import RemoteStore
from retentive.transfer.import_files import import_files, tar_source
from support.http_api import Api
from support.profiles import some
from support.protocols import S3
from support.proxy import Proxy

A, B = "/memories/a.md", "/memories/d/b.md"
MAX_MESSAGES = 6


@pytest.fixture
def proxy(api: Api) -> Iterator[Proxy]:
    with Proxy(urlsplit(api.url).port or 0, S3) as found:
        yield found


def tar() -> io.BytesIO:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name in ("imported/a.md", "imported/b.md"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return raw


def proposal(store: MemoryStore) -> str:
    return store.review.pending()[0].id


def first(store: MemoryStore) -> str:
    return store.memories()[0].id


IN_STORE: dict[str, Callable[[MemoryStore], Any]] = {
    "execute": lambda store: store.execute({"command": "create", "path": "/memories/x", "file_text": "x"}),
    "clear": lambda store: store.clear(),
    "batch": lambda store: store.batch([{"command": "append", "path": A, "file_text": "x"}] * 2),
    "create": lambda store: store.create("/memories/x", "x", source="user"),
    "write": lambda store: store.write(A, "x", if_version=store.load(A)[0].version_id),
    "append": lambda store: store.append(A, "x"),
    "edit": lambda store: store.edit(A, "two", "x"),
    "insert": lambda store: store.insert(A, 0, "x"),
    "delete": lambda store: store.delete("/memories/d"),
    "rename": lambda store: store.rename("/memories/d", "/memories/e"),
    "undo": lambda store: store.undo("HEAD"),
    "undo_by": lambda store: store.undo_by("user:*", mode="force"),
    "change_settings": lambda store: store.change_settings({"view_chars": 5_000}),
    "history.undo": lambda store: store.history.undo("HEAD", path=A, session="s"),
    "history.undo_by": lambda store: store.history.undo_by("user:*", mode="force"),
    "history.undo_own": lambda store: store.history.undo_own(),
    "history.restore": lambda store: store.history.restore("/memories", "HEAD~1"),
    "history.redact": lambda store: store.history.redact([store.versions(A)[-1].id]),
    "history.redact all_of": lambda store: store.history.redact(all_of="/memories/d"),
    "history.erase": lambda store: store.history.erase(A),
    "history.erase memory_id": lambda store: store.history.erase(memory_id=first(store)),
    "review.accept": lambda store: store.review.accept([proposal(store)], actor="user:ann"),
    "review.refuse": lambda store: store.review.refuse([proposal(store)], actor="user:ann"),
    "trust.confirm": lambda store: store.trust.confirm("/memories"),
    "trust.quarantine": lambda store: store.trust.quarantine("user:ann"),
    "trust.release": lambda store: store.trust.release("user:eve"),
    "promote": lambda store: store.promote("/memories", store, new_path="/memories/copy"),
    "cite": lambda store: store.cite(A, f"{B}#L1", line=1),
    "verify": lambda store: store.verify(),
    "upload": lambda store: import_files(store, tar_source(tar()), under="/memories").files,
}
"""Methods of a memory store that change something."""
READING = {
    "acting_as", "audit", "base", "by_id", "call", "directory", "download", "get", "history", "id", "key",
    "list_memories", "listed", "load", "load_at", "memories", "memories_at", "name", "pages", "post", "read",
    "replies", "review", "search", "settings", "through", "trust", "usage", "version_text", "versions", "view",
    "recall", "evidence", "citations", "actor", "answer", "is_on_server", "scan", "sweep", "read_only",
    "by_id.get", "by_id.update", "by_id.delete",
    "history.log", "history.changes", "history.show", "history.diff", "history.differences",
    "history.text_at", "history.blame", "history.page", "history.feed", "history.newest",
    "review.pending", "review.show", "review.decisions",
    "trust.contributors", "trust.doubted", "trust.page",
}  # fmt: skip
"""Names that change nothing, or that other cases call."""


def test_every_method_is_here() -> None:
    from retentive.remote.parts import RemoteById, RemoteHistory, RemoteReview, RemoteTrust

    parts: dict[str, type] = {
        "": RemoteStore, "by_id.": RemoteById, "history.": RemoteHistory, "review.": RemoteReview,
        "trust.": RemoteTrust,
    }  # fmt: skip
    names = {f"{start}{name}" for start, kind in parts.items() for name in dir(kind) if not name.startswith("_")}
    assert names - READING == {name.partition(" ")[0] for name in IN_STORE}


def prepared(place: Retentive, name: str) -> MemoryStore:
    """A store with some changes and a proposal."""
    store = place.store(name[-250:])
    store.create(A, "one\n", actor="user:ann")
    store.write(A, "two\n")
    store.write(A, "two\nthree\n")
    store.write(B, "b", actor="user:ann")
    store.write(B, "c")
    store.change_settings({"review": ["session:*"], "quarantine": ["user:eve"]})
    store.write(A, "proposed\n", actor="session:s1")
    return store


def plain(value: object) -> str:
    """A value without ids, times and names of stores."""
    return re.sub(r"[a-z]+_[0-9a-f]{32}|\d{4}-\d\d-\d\d[^'\",)]*|datetime\.datetime\([^)]*\)", "_", repr(value))


def state(store: MemoryStore) -> list[str]:
    """Everything that a change changes: versions, proposals, settings and memories."""
    memories = [(each.path, store.version_text(each.version_id)) for each in store.memories()]
    proposals = [each.summary for each in store.review.pending()]
    return [plain(each) for each in (store.versions(), memories, proposals, store.settings())]


@pytest.mark.parametrize("name", some(IN_STORE, 3))
def test_a_change_whose_answer_is_lost(api: Api, proxy: Proxy, remote: Retentive, name: str) -> None:
    """Each message of the call in turn loses its answer, until the call has no more messages."""
    uncut = prepared(remote, f"uncut {name}")
    caller = api.with_key("admin", act_as=("user:*",)) if name == "review.accept" else api  # not the author
    with retentive.open(api.url, api_key=caller.key) as opened:
        expected, after = plain(IN_STORE[name](opened.store(uncut.id))), state(uncut)
    for number in cuts(proxy):
        store = prepared(remote, f"cut {number} {name}")
        with retentive.open(proxy.through(api.url), api_key=caller.key) as opened:
            through = opened.store(store.id)
            cut(proxy, number)
            assert plain(IN_STORE[name](through)) == expected
            proxy.heal()
        assert state(store) == after


def cuts(proxy: Proxy) -> Iterator[int]:
    """Numbers of the messages of a call, until it had none to cut."""
    for number in range(1, MAX_MESSAGES):
        yield number
        if proxy.done.total() == 0:
            assert number > 1
            return
    pytest.fail("the call has more messages than this test has cuts")


def cut(proxy: Proxy, number: int) -> None:
    """Lose the answer to a message from now on."""
    proxy.done.clear()
    proxy.plan = Plan([Fault("message", number, "answer", "reset")])
    proxy.cut_all()


IN_PLACE: dict[str, Callable[[Retentive, str], Any]] = {
    "store": lambda place, key: place.store(f"{key} new").id != "",
    "create_store with a key": lambda place, key: place.create_store("made", key=f"{key} 2").name,
    "update_store": lambda place, key: place.update_store(key, name="other", metadata={"a": "b"}).metadata,
    "archive_store": lambda place, key: place.archive_store(key).archived_at is not None,
    "erase": lambda place, key: place.erase(key),
}


def test_every_method_of_the_place_is_here() -> None:
    reading = {"base", "call", "close", "get", "get_store", "is_on_server", "list_stores", "pages", "post", "records"}
    reading |= {"stores", "through"}
    names = {name for name in dir(RemoteLocation) if not name.startswith("_")}
    assert names - reading == {name.partition(" ")[0] for name in IN_PLACE}


def test_a_store_without_a_key_is_not_created_twice(api: Api, proxy: Proxy, remote: Retentive) -> None:
    with retentive.open(proxy.through(api.url), api_key=api.key) as opened:
        proxy.plan = Plan([Fault("message", 1, "answer", "reset")])
        with pytest.raises(OutcomeUnknown):
            opened.create_store("made once")
    assert [each.name for each in remote.stores()].count("made once") == 1


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_change_of_stores_whose_answer_is_lost(api: Api, proxy: Proxy, remote: Retentive, name: str) -> None:
    """Stores are made, changed and erased once."""

    def changed(place: Retentive, key: str) -> tuple[str, list[str]]:
        """The reply, and the stores that are there after it, without the name of this case."""
        remote.store(key)
        reply = plain(IN_PLACE[name](place, key))
        there = (f"{each.name} {each.key} {each.metadata}" for each in remote.stores())
        return reply.replace(key, "KEY"), sorted(each.replace(key, "KEY") for each in there if key in each)

    expected = changed(remote, f"uncut {name}!")
    for number in cuts(proxy):
        with retentive.open(proxy.through(api.url), api_key=api.key) as opened:
            cut(proxy, number)
            assert changed(opened, f"cut {number} {name}!") == expected
            proxy.heal()
