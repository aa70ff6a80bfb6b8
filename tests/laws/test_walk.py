"""Backends and model agree along long random walks; the seed makes a walk the same again."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import commonplace
from backends.places import PLACES, place_of
from commonplace import MemoryStore, Usage

from .model import Model
from .walk import Walk

LONG = os.environ.get("CI") == "true"
STEPS = 3_000 if LONG else 400
SEEDS = range(40) if LONG else range(5)
LIMITS: tuple[dict[str, Any], ...] = (
    {},
    {"view_chars": 20, "list_rows": 5},
    {"view_chars": 1, "list_rows": 1, "create_overwrites": True},
    {"max_memory_bytes": 40, "view_chars": 0, "list_rows": 0},
    {"view_chars": 9},
)


@contextmanager
def opened(directory: Path, limits: dict[str, Any]) -> Iterator[dict[str, MemoryStore]]:
    with ExitStack() as stack:
        places = {name: place_of(name, directory) for name in PLACES}
        yield {name: stack.enter_context(commonplace.open(place, **limits)).store() for name, place in places.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_replies_trees_and_versions_agree_along_a_walk(seed: int, tmp_path: Path) -> None:
    """Each reply fits the model and is the same on every backend; so are tree, usage and number of versions."""
    limits = dict(LIMITS[seed % len(LIMITS)])
    model = Model(**limits)
    walk = Walk(seed, model)
    with opened(tmp_path, limits) as stores:
        for step in range(STEPS):
            command = walk.command()
            expected = model.execute(command)
            replies = {name: store.execute(command) for name, store in stores.items()}
            for name, reply in replies.items():
                assert expected.fits(reply.text, is_error=reply.is_error), (seed, step, name, command, expected, reply)
            assert len(set(replies.values())) == 1, (seed, step, command, replies)
        for store in stores.values():
            check(store, model)


def check(store: MemoryStore, model: Model) -> None:
    """Tree, usage and history are what the commands made them."""
    assert {memory.path: store.text(memory.path) for memory in store.memories()} == model.tree
    assert store.usage() == Usage(len(model.tree), sum(len(text.encode()) for text in model.tree.values()))
    versions = list(store.versions())
    assert len(versions) == model.changes
    assert rebuilt(store) == model.tree
    assert [version.id for version in versions] == sorted((version.id for version in versions), reverse=True)


def rebuilt(store: MemoryStore) -> dict[str, str]:
    """The tree, made again from nothing but the versions."""
    tree: dict[str, tuple[str, str]] = {}
    for version in reversed(list(store.versions())):
        if version.operation == "deleted":
            del tree[version.memory_id]
        else:
            tree[version.memory_id] = (version.path, store.version_text(version.id))
    return dict(tree.values())


def test_the_walk_is_the_same_for_a_seed() -> None:
    """A failure can be run again."""
    commands = [Walk(7, Model(tree={"/memories/a": "a\n"})).command() for _ in range(2)]
    assert commands[0] == commands[1]
    assert random.Random(7).random() == random.Random(7).random()
