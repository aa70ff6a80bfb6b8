"""A copy contains everything that the memory store contains, with its gaps, through a file or directly."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retentive
from retentive import MemoryStore, Retentive, Version
from retentive.storage.capabilities import below_encryption
from retentive.transfer.archive import open_archive
from retentive.transfer.copies import Copy
from retentive.transfer.export import back_up, export_whole
from retentive.transfer.files import TransferProgress
from retentive.transfer.restore import import_whole, migrate, restore
from support.places import LASTING
from support.profiles import LONG
from support.strategies import commands

from .copies import PERSON, Steps, adorn, facts, fill, goes_on, lose, place, steps

QUICK = ["memory", "sealed memory"]
ELSEWHERE = [*LASTING, "sealed directory", *(["sealed postgresql", "sealed mariadb"] if LONG else [])]


@pytest.mark.long
@given(st.data())
def test_any_history_survives_any_way(data: st.DataObject) -> None:
    """The history has commands, redactions and removals in any order.

    The ways are an export, a backup and a migration, with and without encryption.
    """
    source_kind, target_kind = data.draw(st.sampled_from(QUICK)), data.draw(st.sampled_from(QUICK))
    suffix = data.draw(st.sampled_from([".tar", ".tar.zst"]))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with place(source_kind, directory) as source:
            store = source.store()
            for _ in range(data.draw(st.integers(0, 15))):
                store.execute(data.draw(commands([memory.path for memory in store.memories()])))
                if data.draw(st.integers(0, 5)) == 0:
                    lose(store, data.draw(st.randoms(use_true_random=False)))
            adorn(store)
            expected = facts(source.backend, store.id)
            every_way(source, target_kind, directory, suffix, expected)


def every_way(source: Retentive, kind: str, directory: Path, suffix: str, expected: dict[str, object]) -> None:
    store = source.store()
    # An encrypted store stays encrypted in a backup, and the keys of the source open the restored store.
    restored = "sealed memory" if store._core.info.seal else "memory"
    for way, target_kind in (("export", kind), ("migrate", kind), ("backup", restored)):
        with place(target_kind, directory / way) as target:
            copy(way, source, target, directory, suffix)
            if way == "export":
                expected_here = facts(store._core.backend, store.id, records=False)
                assert facts(target.backend, store.id, records=False) == expected_here
            else:
                assert facts(target.backend, store.id) == expected
            goes_on(target.store())


def copy(way: str, source: Retentive, target: Retentive, directory: Path, suffix: str = ".tar") -> None:
    """Copy the store of a location to another one."""
    if way == "migrate":
        migrate(source.backend, target.backend)
        return
    file = str(directory / f"{way}{suffix}")
    if way == "export":
        export_whole(source.store(), file)
    else:
        back_up(source.backend, file)
    with open_archive(file) as archive:
        if way == "export":
            import_whole(archive, target.backend)
        else:
            restore(archive, target.backend)


def interrupt(_done: int, _total: int | None) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("way", ["restore", "migrate"])
def test_an_interrupted_copy_goes_on(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run continues after the last version of the target, and copies none twice."""
    monkeypatch.setattr("retentive.transfer.copies.BATCH_VERSIONS", 7)
    with place("memory", tmp_path) as source, place("memory", tmp_path) as target:
        store = source.store()
        fill(store, 5, steps=40, gaps=False)
        back_up(source.backend, str(tmp_path / "b.tar"))

        def run(progress: TransferProgress | None) -> Sequence[Copy]:
            if way == "migrate":
                return migrate(source.backend, target.backend, progress=progress).stores
            with open_archive(str(tmp_path / "b.tar")) as archive:
                return restore(archive, target.backend, progress=progress).stores

        with pytest.raises(KeyboardInterrupt):
            run(interrupt)
        (done,) = run(None)
        assert done.added == len(store.versions()) - 7
        assert facts(target.backend, store.id) == facts(source.backend, store.id)


def test_no_copy_launders_a_planted_line(tmp_path: Path) -> None:
    """A copy keeps every contributor of a memory, also an export without `records`."""
    path = "/memories/shared"
    with place("memory", tmp_path) as source:
        store = source.store()
        store.create(path, "planted\n", actor="session:evil")
        for number in range(40):
            store.append(path, f"{number}\n", actor=f"session:{number}")
        for way in ("export", "backup", "migrate"):
            with place("memory", tmp_path / way) as target:
                copy(way, source, target, tmp_path)
                there = target.store()
                assert not there.execute({"command": "view", "path": path}, actor="session:reader").is_error
                there.change_settings({"quarantine": ["session:evil"]})
                assert there.execute({"command": "view", "path": path}, actor="session:reader").code == "not_found"


PAIRS = list(zip(ELSEWHERE, [*ELSEWHERE[1:], ELSEWHERE[0]], strict=True))


@pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS)
def test_every_kind_migrates(source_kind: str, target_kind: str, tmp_path: Path) -> None:
    """The history is longer and has gaps.

    A second run copies later changes. Each kind is a source once and a target once.
    """
    with place(source_kind, tmp_path / "source") as source, place(target_kind, tmp_path / "target") as target:
        store = source.store("kept", name="Kept é")
        fill(store, 7, steps=40)
        (done,) = migrate(source.backend, target.backend).stores
        assert facts(target.backend, store.id) == facts(source.backend, store.id)
        assert done.memories == store.usage().memories
        fill(store, 8, steps=20)
        (again,) = migrate(source.backend, target.backend).stores
        assert facts(target.backend, store.id, redacted=False) == facts(source.backend, store.id, redacted=False)
        assert again.added <= again.versions
        goes_on(target.store("kept"))


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_a_backup_of_every_kind_is_restored_everywhere(kind: str, tmp_path: Path) -> None:
    """The backup has several stores, one of them without a key.

    It is restored into SQLite, a directory and the same kind.
    """
    backup = str(tmp_path / "b.tar")
    with place(kind, tmp_path / "source") as source:
        for number, name in enumerate(["default", "second é"]):
            fill(source.store(name), number, steps=30)
        bare = source.backend.create_store(key=None, name="no key")
        ids = [info.id for info in source.stores()]
        expected = {store_id: facts(source.backend, store_id) for store_id in ids}
        written = back_up(source.backend, backup).stores
        assert [one.id for one in written] == ids
        assert bare.id in ids
    for number, target_kind in enumerate([kind, _alike(kind, "sqlite"), _alike(kind, "directory")]):
        with place(target_kind, tmp_path / f"target{number}") as target:
            with open_archive(backup) as archive:
                done = restore(archive, target.backend).stores
            assert [one.id for one in done] == ids
            assert {store_id: facts(target.backend, store_id) for store_id in ids} == expected
            goes_on(target.store("second é"))
            with open_archive(backup) as archive, pytest.raises(Exception, match="other versions"):
                restore(archive, target.backend)


def _alike(kind: str, bare: str) -> str:
    """Return a kind of backend with the same encryption as `kind`."""
    how, _, rest = kind.partition(" ")
    return f"{how} {bare}" if rest else bare


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


def lose_numbered(store: MemoryStore, numbers: list[int], how: str) -> list[Version]:
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


@pytest.mark.parametrize("way", ["migrate", "export", "backup"])
def test_a_history_with_gaps_is_copied(
    way: str, scenario: tuple[Steps, list[int], str], target: Retentive, tmp_path: Path
) -> None:
    """The copy has the same tree, usage and creation times, and all remaining versions."""
    given, numbers, how = scenario
    with place("memory", tmp_path / "source") as source:
        store = source.store()
        steps(store, given)
        lose_numbered(store, numbers, how)
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
        left = lose_numbered(store, numbers, how)
        (done,) = migrate(source.backend, target.backend).stores
        assert (done.added, done.versions) == (0, len(left))
        expected, found = (facts(one.backend, store.id, redacted=False) for one in (source, target))
        assert found == expected
        by = [version.redacted_by for version in MemoryStore(target.backend, store._core.info).versions()]
        assert by == [version.redacted_by for version in left]


def test_a_removed_text_is_in_no_file_of_the_copy(tmp_path: Path) -> None:
    """A later migration removes what was redacted in the source also from free pages and from the log."""
    copied, secret = tmp_path / "copied", b"unmistakable text"
    with place("memory", tmp_path) as source, place("sqlite", copied) as target:
        store = source.store()
        store.create(A, f"{secret.decode()}\n")
        store.write(A, "other\n")
        migrate(source.backend, target.backend)
        assert secret in b"".join(file.read_bytes() for file in copied.iterdir())
        store.history.redact([store.versions()[-1].id])
        migrate(source.backend, target.backend)
        assert secret not in b"".join(file.read_bytes() for file in copied.iterdir())


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
        lose_numbered(store, [number for number in numbers if number != cut - 1], how)
        migrate(source.backend, target.backend)
        expected, found = (facts(one.backend, store.id, redacted=False) for one in (source, target))
        assert found == expected


@pytest.mark.parametrize("way", ["backup", "migrate"])
def test_a_copy_of_a_packed_store_is_packed_by_its_next_sweep(way: str, tmp_path: Path) -> None:
    """It has the same history. A copy carries texts, not packs."""
    with place("sqlite", tmp_path) as opened, retentive.open(tmp_path / "copy", sweep=False) as other:
        store, lines = opened.store(), [f"line {number} of a long text" for number in range(500)]
        for number in range(60):
            lines[number * 7 % 500] = f"line {number} edited"
            store.write("/memories/a.md", "\n".join(lines))
        store.sweep()
        copy(way, opened, other, tmp_path, ".tar.zst")
        if way == "backup":
            assert (tmp_path / "backup.tar.zst").stat().st_size < 20_000
        copied = other.store()
        copied.sweep()
        ids = [version.id for version in store.versions("/memories/a.md")]
        assert [copied.version_text(each) for each in ids] == [store.version_text(each) for each in ids]
        assert (other.backend.history_bytes(copied.id) or 0) < 30_000
