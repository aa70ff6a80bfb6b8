"""Laws of earlier directories: with any history, they agree with all versions read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.storage.contract import Backend, Snapshot, Version
from retentive.testing.backend_suite.opening import Opened
from retentive.testing.backend_suite.versions import blank, prune
from retentive.values.paths import ROOT, ancestors
from support.places import opened
from support.profiles import LONG

PATHS = tuple(f"/memories/{name}" for name in ("a", "a/b", "a/c", "a!", "b/a/c", "b/d", "c"))
BACKENDS = ("memory", *(("sqlite", "directory", "sealed sqlite", "sealed directory") if LONG else ()))
step = st.tuples(
    st.sampled_from(["put", "put", "move", "rewrite", "delete", "redact", "prune"]),
    st.sampled_from(PATHS),
    st.sampled_from(PATHS),
)


@pytest.fixture(params=BACKENDS, scope="module")
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with closing(opened(request.param, tmp_path_factory.mktemp("earlier"))) as place:
        yield place.backend


@given(steps=st.lists(step, max_size=24), data=st.data())
def test_earlier_directories_agree_with_all_versions(
    backend: Backend, steps: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    """With deletions, renames, new texts at new paths, memories made again, redaction and pruning."""
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


def compare(found: Snapshot, before: str) -> None:
    """Compare the earlier directories with the newest version of each memory."""
    newest: dict[str, Version] = {}
    for version in found.versions(before=before):
        newest.setdefault(version.memory_id, version)
    present = (each for each in newest.values() if each.path and each.operation != "deleted")
    versions = sorted(present, key=lambda each: each.path)
    for under in (ROOT, "/memories/a", "/memories/b"):
        for start in ("", "/memories/a/c", "/memories/b/b"):
            below = [each for each in versions if each.path.startswith(under + "/") and each.path >= start]
            level: dict[str, Version] = {}
            for each in below:
                level.setdefault(each.path[len(under) + 1 :].partition("/")[0], each)
            for limit in (None, 1, 2):
                assert list(found.list_at(before, under, start=start, limit=limit)) == below[:limit]
                entries = found.list_at(before, under, start=start, limit=limit, one_level=True)
                assert list(entries) == list(level.values())[:limit]
