"""Histories with gaps, from pruned or redacted versions, are copied with their gaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retentive import MemoryStore, Retentive, Version
from retentive.storage.capabilities import below_encryption
from retentive.transfer.archive import open_archive
from retentive.transfer.export import back_up, export_whole
from retentive.transfer.restore import import_whole, migrate, restore
from support.profiles import LONG

from .copies import PERSON, facts, goes_on, place
from .steps import Steps, steps

A, B, C = "/memories/a", "/memories/b", "/memories/a/c"
SCENARIOS: dict[str, tuple[Steps, list[int], str]] = {
    "another at the path": ([("create", A, "1"), ("delete", A), ("create", A, "2")], [1], "prune"),
    "another, and the deletion redacted": ([("create", A, "1"), ("delete", A), ("create", A, "2")], [1], "blank"),
    "below a file that was": ([("create", A, "1"), ("delete", A), ("create", C, "2")], [1], "prune"),
    "a file where a directory was": ([("create", C, "1"), ("delete", C), ("create", A, "2")], [1], "prune"),
    "moved away, and another came": (
        [("create", A, "1"), ("rename", A, B), ("create", A, "2"), ("rename", B, "/memories/d")],
        [1],
        "prune",
    ),
    "edited, redacted, moved": ([("create", A, "1"), ("edit", A, "2"), ("rename", A, B)], [1], "blank"),
    "moved and edited": ([("create", A, "1"), ("rename", A, B), ("edit", B, "2")], [1], "prune"),
    "made, redacted, moved": ([("create", A, "1"), ("rename", A, B), ("edit", B, "2")], [0], "blank"),
    "gone without a word": ([("create", A, "1"), ("create", B, "2"), ("delete", A)], [2], "prune"),
    "only its end": ([("create", A, "1"), ("create", B, "2"), ("delete", A)], [0], "prune"),
    "its end redacted": ([("create", A, "1"), ("create", B, "2"), ("delete", A)], [2], "blank"),
    "all redacted": ([("create", A, "1"), ("edit", A, "2"), ("delete", A)], [0, 1, 2], "blank"),
    "older than its versions": ([("create", A, "1"), ("edit", A, "2"), ("edit", A, "3")], [0, 1], "prune"),
    "there and back": ([("create", A, "1"), ("rename", A, B), ("rename", B, A), ("edit", A, "2")], [1], "prune"),
}


def lose(store: MemoryStore, numbers: list[int], how: str) -> list[Version]:
    """Prune or redact versions by their number, counted from the oldest. Returns the remaining versions."""
    versions = list(reversed(list(store.versions())))
    ids = [versions[number].id for number in numbers]
    store._core.backend.write(store.id, lambda tx: tx.prune(ids) if how == "prune" else tx.redact(ids, PERSON))
    return list(store.versions())


@pytest.fixture(params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> tuple[Steps, list[int], str]:
    return SCENARIOS[str(request.param)]


@pytest.fixture(params=["memory", *(["directory", "sealed memory"] if LONG else [])])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Retentive]:
    with place(str(request.param), tmp_path / "target") as opened:
        yield opened


def copy(way: str, source: Retentive, target: Retentive, directory: Path) -> None:
    if way == "migrate":
        migrate(source.backend, target.backend)
        return
    file = str(directory / "copy.tar")
    if way == "export":
        export_whole(source.store(), file)
    else:
        back_up(source.backend, file)
    with open_archive(file) as archive:
        if way == "export":
            import_whole(archive, target.backend)
        else:
            restore(archive, target.backend)


@pytest.mark.parametrize("way", ["migrate", "export", "backup"])
def test_a_history_with_gaps_is_copied(
    way: str, scenario: tuple[Steps, list[int], str], target: Retentive, tmp_path: Path
) -> None:
    """The copy has the same tree, usage and creation times, and all remaining versions."""
    given, numbers, how = scenario
    with place("memory", tmp_path / "source") as source:
        store = source.store()
        steps(store, given)
        lose(store, numbers, how)
        copy(way, source, target, tmp_path)
        # The backup of a plain store is restored as a plain store, even if the target has keys.
        backend = below_encryption(target.backend) if way == "backup" else target.backend
        copied, expected = (facts(each, store.id, records=way != "export") for each in (backend, source.backend))
        assert copied == expected
    goes_on(MemoryStore(backend, store._core.info))


def test_a_later_migration_copies_removals(
    scenario: tuple[Steps, list[int], str], target: Retentive, tmp_path: Path
) -> None:
    """Versions that were redacted or pruned in the source since the first migration are redacted or pruned in the copy.

    A redaction in the copy has the same actor.
    """
    given, numbers, how = scenario
    with place("memory", tmp_path / "source") as source:
        store = source.store()
        steps(store, given)
        migrate(source.backend, target.backend)
        left = lose(store, numbers, how)
        (done,) = migrate(source.backend, target.backend)
        assert (done.added, done.versions) == (0, len(left))
        expected, found = (facts(one.backend, store.id, redacted=False) for one in (source, target))
        assert found == expected
        by = [version.redacted_by for version in MemoryStore(target.backend, store._core.info).versions()]
        assert by == [version.redacted_by for version in left]


@pytest.mark.parametrize("cut", [1, 2, 3] if LONG else [2])
def test_a_resumed_migration_copies_gaps(
    cut: int, scenario: tuple[Steps, list[int], str], target: Retentive, tmp_path: Path
) -> None:
    """Before the second migration, versions are removed. The first migration has copied some of these versions."""
    given, numbers, how = scenario
    with place("memory", tmp_path / "source") as source:
        store = source.store()
        steps(store, given[:cut])
        migrate(source.backend, target.backend)
        steps(store, given[cut:])
        lose(store, [number for number in numbers if number != cut - 1], how)
        migrate(source.backend, target.backend)
        expected, found = (facts(one.backend, store.id, redacted=False) for one in (source, target))
        assert found == expected
