"""A forged file with memories at conflicting paths is refused before anything is written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import retentive
from retentive.errors import Damaged
from retentive.transfer.export import back_up

from .archives import Entries, listed, read, refusal, store_in, write
from .steps import Steps, steps

A, BX = "/memories/a", "/memories/b_x"
BOTH: Steps = [("create", A, "1"), ("create", BX, "2")]
GONE: Steps = [*BOTH, ("delete", BX)]


def entries(given: Steps, directory: Path, *, prune: int | None = None) -> Entries:
    """Return the entries of a backup of a store with this history. `prune` removes one version."""
    path = directory / "whole.tar"
    with retentive.open("sqlite://") as place:
        store = place.store()
        steps(store, given)
        if prune is not None:
            ids = [version.id for version in reversed(list(store.versions()))]
            store._core.backend.write(store.id, lambda tx: tx.prune([ids[prune]]))
        back_up(place.backend, str(path))
    return read(path)


def moved(found: Entries, old: str, new: str) -> Entries:
    """Return the same entries with one path replaced and a correct manifest."""
    name = store_in(found)
    lines = [json.loads(line) for line in found[name].splitlines()]
    forged = [line | {"path": new} if line.get("path") == old else line for line in lines]
    newest = {line["memory_id"]: line for line in forged if line["line"] == "version"}
    present = sorted(
        (line for line in newest.values() if line["operation"] != "deleted"), key=lambda line: line["path"]
    )
    digest = hashlib.sha256()
    for line in present:
        digest.update(f"{line['sha256']} {line['path']} {line['memory_id']} {line['id']}\n".encode())
    forged[0]["digest"] = digest.hexdigest()
    return listed(found | {name: b"".join(json.dumps(line).encode() + b"\n" for line in forged)})


@pytest.mark.parametrize("new", ["/memories/a", "/memories/a/x", "/memories/a/y/x"])
@pytest.mark.parametrize("given", [BOTH, GONE], ids=["to the end", "until it goes"])
def test_conflicting_paths_are_refused(new: str, given: Steps, tmp_path: Path) -> None:
    """A path conflicts with a path equal to it, above it or below it, now or after the other memory was written."""
    error = refusal(write(tmp_path / "forged.tar", moved(entries(given, tmp_path), BX, new)))
    assert isinstance(error, Damaged)
    assert "another memory is at, above or below the path of the memory /memories/a" in str(error)


def test_conflicting_present_paths_are_refused_despite_gaps(tmp_path: Path) -> None:
    """A gap in the history can hide the deletion of a memory, but not of a memory that is listed as present."""
    given: Steps = [*BOTH, ("create", "/memories/c", "3"), ("delete", "/memories/c"), ("delete", BX)]
    error = refusal(write(tmp_path / "f.tar", moved(entries(given, tmp_path, prune=2), BX, "/memories/a/x")))
    assert isinstance(error, Damaged)
    assert "another memory is at, above or below the path of the memory /memories/a" in str(error)


def test_a_reserved_path_in_a_file_is_refused(tmp_path: Path) -> None:
    """Nothing is restored into a name such as `.git`, where other programs would run it."""
    error = refusal(write(tmp_path / "f.tar", moved(entries(BOTH, tmp_path), BX, "/memories/.git/hooks/x")))
    assert isinstance(error, Damaged)
    assert "has a path that no memory can have" in str(error)
