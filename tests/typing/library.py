"""Types that users of the public names see. mypy checks this file; it is never run."""

from __future__ import annotations

from typing import assert_type

import retentive
from retentive import (
    AsyncMemoryStore,
    AsyncRetentive,
    Memory,
    MemoryStore,
    Mounts,
    Reply,
    Retentive,
    StoreInfo,
    Usage,
    Version,
    Written,
)
from retentive.history.apply import RestoreOutcome
from retentive.history.history import History
from retentive.search.results import Results

PATH = "/memories/a.md"


def locations() -> None:
    with retentive.open("./memory", view_chars=4_000, actor="user:ann") as opened:
        assert_type(opened, Retentive)
        assert_type(opened.store(), MemoryStore)
        assert_type(opened.store("user-42", name="Ada"), MemoryStore)
        assert_type(opened.stores(), list[StoreInfo])


def writing(store: MemoryStore | Mounts) -> None:
    assert_type(store.create(PATH, "text", actor="user:ann", source="user", session="s1"), Written)
    assert_type(store.write(PATH, "text", if_version=None), Written)
    assert_type(store.append(PATH, "text"), Written)
    assert_type(store.edit(PATH, "old", "new"), Written)
    assert_type(store.insert(PATH, 0, "text"), Written)
    assert_type(store.delete(PATH), Written)
    assert_type(store.rename(PATH, "/memories/b.md"), Written)
    assert_type(store.write(PATH, "text").version_id, str)
    assert_type(store.execute({"command": "view", "path": PATH}).raise_for_error(), Reply)


def reading(store: MemoryStore | Mounts) -> None:
    assert_type(store.read(PATH), str)
    assert_type(store.view(PATH, view_range=(1, 2)), str)
    assert_type(store.load(PATH), tuple[Memory, str])
    assert_type(store.memories(), list[Memory])
    assert_type(store.search("words"), Results)


def history(store: MemoryStore) -> None:
    assert_type(store.versions(PATH, limit=1), list[Version])
    assert_type(store.usage(), Usage)
    assert_type(store.undo("memver_1"), RestoreOutcome)
    assert_type(store.undo_by("session:*", mode="merge"), RestoreOutcome)
    assert_type(store.history, History)


async def awaiting() -> None:
    async with retentive.open_async("./memory", view_chars=4_000, actor="user:ann") as opened:
        assert_type(opened, AsyncRetentive)
        store = await opened.store("user-42", name="Ada")
        assert_type(store, AsyncMemoryStore)
        assert_type(await opened.stores(), list[StoreInfo])
    assert_type(await store.create(PATH, "text", actor="user:ann", source="user"), Written)
    assert_type(await store.write(PATH, "text", if_version="memver_1"), Written)
    assert_type(await store.read(PATH), str)
    assert_type(await store.load(PATH), tuple[Memory, str])
    assert_type(await store.versions(PATH, limit=1), list[Version])
    assert_type(await store.execute({"command": "view", "path": PATH}, actor="user:ann"), Reply)
    assert_type(await store.call(lambda sync: sync.history.log()), list[Version])
    await store.create(PATH)  # type: ignore[call-arg]
    await store.create(PATH, 1)  # type: ignore[arg-type]


def wrong(store: MemoryStore) -> None:
    store.create(PATH)  # type: ignore[call-arg]
    store.write(PATH, b"bytes")  # type: ignore[arg-type]
    store.versions(PATH, 1)  # type: ignore[arg-type, call-arg]
    retentive.open("./memory", view_charz=1)  # type: ignore[call-arg]
