"""Long random walks of commands on all backends and the model. The seed of a walk reproduces it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from retentive import MemoryStore, Usage
from support.model import Model
from support.places import ALL_LOCAL, COMPARED
from support.places import opened as opened_at
from support.profiles import sized
from support.walk import Walk

STEPS = sized(quick=250, long=1_000, full=3_000)
SEEDS = range(sized(quick=3, long=6, full=20))
SEEDS_EVERYWHERE = range(sized(quick=1, long=1, full=3))
STEPS_EVERYWHERE = sized(quick=80, long=250, full=500)
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"view_chars": 9, "max_memories": 6, "max_store_bytes": 200},
    {"max_memory_bytes": 40, "view_chars": 0, "list_rows": 0},
    {"view_chars": 20, "list_rows": 5},
    {"view_chars": 1, "list_rows": 1, "create_overwrites": True},
)


@contextmanager
def opened(directory: Path, limits: dict[str, Any], backends: Sequence[str]) -> Iterator[dict[str, MemoryStore]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(opened_at(name, directory, **limits)).store() for name in backends}


@pytest.mark.parametrize("seed", SEEDS)
def test_replies_trees_and_versions_agree_along_a_walk(seed: int, tmp_path: Path) -> None:
    """The model predicts every reply, the tree, the usage and the number of versions on each local backend."""
    walk(seed, ALL_LOCAL, STEPS, tmp_path)


@pytest.mark.parametrize("seed", SEEDS_EVERYWHERE)
def test_walks_agree_on_servers_and_encrypted_stores(seed: int, tmp_path: Path) -> None:
    """The walk runs on every backend: bare and encrypted."""
    walk(seed, COMPARED, STEPS_EVERYWHERE, tmp_path)


def walk(seed: int, backends: Sequence[str], steps: int, directory: Path) -> None:
    limits = dict(LIMITS[seed % len(LIMITS)])
    model = Model(**limits)
    way = Walk(seed, model)
    with opened(directory, limits, backends) as stores:
        for step in range(steps):
            command = way.command()
            expected = model.execute(command)
            replies = {name: store.execute(command) for name, store in stores.items()}
            for name, reply in replies.items():
                assert expected.fits(reply.text, is_error=reply.is_error), (seed, step, name, command, expected, reply)
            assert len(set(replies.values())) == 1, (seed, step, command, replies)
        for store in stores.values():
            check(store, model)


def check(store: MemoryStore, model: Model) -> None:
    """Check that the tree, the usage and the history agree with the commands."""
    assert {memory.path: store.read(memory.path) for memory in store.memories()} == model.tree
    assert store.usage() == Usage(len(model.tree), sum(len(text.encode()) for text in model.tree.values()))
    versions = list(store.versions())
    assert len(versions) == model.changes
    assert rebuild_tree(store) == model.tree
    assert [version.id for version in versions] == sorted((version.id for version in versions), reverse=True)


def rebuild_tree(store: MemoryStore) -> dict[str, str]:
    """Rebuild the tree from the versions alone."""
    tree: dict[str, tuple[str, str]] = {}
    for version in reversed(list(store.versions())):
        if version.operation == "deleted":
            del tree[version.memory_id]
        else:
            tree[version.memory_id] = (version.path, store.version_text(version.id))
    return dict(tree.values())
