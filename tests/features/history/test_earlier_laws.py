"""Laws of earlier directories: with any history, they agree with all versions read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retentive
from retentive.storage.contract import Backend, Change, Snapshot, Transaction, Version
from retentive.storage.sql import departures
from retentive.storage.sql.departures import DEPARTURES
from retentive.testing.backend_suite.opening import Opened
from retentive.testing.backend_suite.versions import blank, prune
from retentive.values.paths import ROOT, ancestors
from support.places import opened

PATHS = tuple(f"/memories/{name}" for name in ("a", "a/b", "a/c", "a!", "b/a/c", "b/d", "c"))
BACKENDS = ("memory", "sqlite", "directory", "sealed sqlite", "hidden directory")
step = st.tuples(
    st.sampled_from(["put", "put", "move", "rewrite", "delete", "redact", "prune", "read", "forget"]),
    st.sampled_from(PATHS),
    st.sampled_from(PATHS),
)


@pytest.fixture(params=BACKENDS, scope="module")
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with closing(opened(request.param, tmp_path_factory.mktemp("earlier"))) as place:
        yield place.backend


@pytest.fixture(params=[departures._FEW, 2], ids=["few versions", "many versions"], scope="module")
def few(request: pytest.FixtureRequest) -> Iterator[None]:
    """Read departures in both ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(departures, "_FEW", request.param)
        yield


@pytest.mark.usefixtures("few")
@given(steps=st.lists(step, max_size=24), data=st.data())
def test_earlier_directories_agree_with_all_versions(
    backend: Backend, steps: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    """With deletions, renames, new texts at new paths, memories made again, redaction and pruning, cached or not."""
    store = Opened(backend, f"s{len(backend.list_stores())}")
    for what, path, other in steps:
        carry_out(store, what, path, other)
    bounds = [each.id + suffix for each in store.versions() for suffix in ("", "!")]
    for before in [*data.draw(st.permutations(bounds)), "~"]:
        store.read(partial(compare, before=before))


def carry_out(store: Opened, what: str, path: str, other: str) -> None:
    """Make a change if it is possible."""
    tree = store.tree()
    free = not any(one == other or other in ancestors(one) or one in ancestors(other) for one in tree if one != path)
    if what == "put" and (path in tree or not any(path in ancestors(one) or one in ancestors(path) for one in tree)):
        store.put(path, f"text {len(store.versions())}".encode())
    elif what in {"move", "rewrite"} and path in tree and free and other != path and path not in ancestors(other):
        if other not in ancestors(path):
            store.move(path, other, data=b"with another text" if what == "rewrite" else None)
    elif what == "delete" and path in tree:
        store.delete(path)
    elif what == "redact":
        blank(store, [each.id for each in store.versions()[::3]])
    elif what == "prune":
        prune(store, [each.id for each in store.versions()[4::3]])
    elif what == "read":
        newest = store.versions(limit=1)
        if newest:
            store.read(lambda found: found.earlier(newest[0].id, ROOT))
    elif what == "forget":
        DEPARTURES.forget(store.id)


def compare(found: Snapshot, before: str) -> None:
    """Compare the earlier directories with the newest version of each memory."""
    versions = sorted((each for each in found.as_of(before) if each.path), key=lambda each: each.path)
    for under in (ROOT, "/memories/a", "/memories/b"):
        for start in ("", "/memories/a/c", "/memories/b/b"):
            below = [each for each in versions if each.path.startswith(under + "/") and each.path >= start]
            level: dict[str, Version] = {}
            for each in below:
                level.setdefault(each.path[len(under) + 1 :].partition("/")[0], each)
            for limit in (None, 1, 2):
                earlier = found.earlier(before, under, start=start, limit=limit)
                assert earlier is None or list(earlier) == below[:limit]
                entries = found.earlier(before, under, start=start, limit=limit, one_level=True)
                assert entries is None or list(entries) == list(level.values())[:limit]


def paths_of(snapshot: Snapshot, before: str) -> list[str] | None:
    """Paths of an earlier state; None if all versions must be read."""
    found = snapshot.earlier(before, ROOT)
    return None if found is None else [each.path for each in found]


def test_many_versions_are_followed_only_if_they_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single read of an old state does not pay for later ones; a recent state never needs old versions."""
    monkeypatch.setattr(departures, "_FEW", 5)
    monkeypatch.setattr(departures, "_PER_MEMORY", 1)
    with closing(retentive.open("sqlite://")) as place:
        store = Opened(place.backend)
        for number in range(9):
            store.put("/memories/a", b"%d" % number)
        store.move("/memories/a", "/memories/b")
        ids = [each.id for each in store.versions()]

        def earlier(before: str) -> list[str] | None:
            return store.read(partial(paths_of, before=before))

        assert earlier(ids[0]) == ["/memories/a"]
        assert earlier(ids[-2]) is None
        assert earlier(ids[-2]) == ["/memories/a"]
        assert earlier(ids[-1]) == []


def test_changes_that_are_rolled_back_leave_nothing(tmp_path: Path) -> None:
    """A transaction that has changed something reads all memories."""
    with closing(opened("sqlite", tmp_path)) as place:
        store = Opened(place.backend)
        store.put("/memories/a", b"1")
        first = store.versions()[0].id + "!"

        def work(tx: Transaction) -> None:
            assert tx.earlier(first, ROOT) is not None
            tx.record([Change(tx.get("/memories/a").memory, None)], None)
            assert tx.earlier(first, ROOT) is None
            raise ValueError("this write is meant to fail")

        with pytest.raises(ValueError, match="meant to fail"):
            store.write(work)
        assert store.read(partial(paths_of, before=first)) == ["/memories/a"]
