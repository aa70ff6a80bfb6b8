"""Single corruptions: each is found and named, or listed with the reason; no repair makes anything worse."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pytest

from retentive import MemoryStore
from retentive.doctor import Finding, check, check_location
from retentive.errors import NotFound, RetentiveError
from retentive.storage import capabilities
from retentive.storage.contract import Created, StoreInfo
from retentive.storage.objects.backend import ObjectsBackend, _key_object
from retentive.storage.objects.ordered_map import Sizes
from retentive.storage.objects.reachability import sweep
from support.corruption import (
    Bytes,
    Corruption,
    Dump,
    Impossible,
    SqliteRows,
    Texts,
    copied,
    fill_stores,
    is_named,
    new_id,
    open_reproducibly,
    reproducible,
    texts_in,
    texts_of,
)
from support.places import place_of
from support.profiles import LONG

PARTS = "abcde" if LONG else "a"
"""Seeds of the parts of a test, which different processes run."""
COUNT = 50 if LONG else 12
"""Number of corruptions in a part: 250 for each backend in the long profile."""
PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"
_NAMES = "It has no second copy. With the audit log on, a changed actor, operation or setting contradicts the log"
_RECORDS = "A remembered reply, an access time or a decision has no second copy; a lost one is like an expired one"
_STORES = "The row of a store has no second copy of it; an encrypted store binds its id to its key"
_REDACTED = "The time of a redaction has no second copy; that the version is redacted is checked"
_GAP = "An erased memory, and the history of another location, leave the same gap; the newest version has a second copy"
_TOTALS = "Only the totals of the newest version are used, and a check counts them again"
_EQUAL = "A row with an equal text holds the same bytes"
_EDIT = "An edit of a file is an external edit and becomes a version; the earlier text stays in the history"
REASONS = {
    "stores.id": _STORES,
    "stores.workspace": _STORES,
    "stores.properties": _NAMES,
    "stores.store_key": _STORES,
    "stores.created_at": _STORES,
    "stores.name": _STORES,
    "stores.settings": _NAMES,
    "stores.token": "It only tells whether a commit was lost, until the next one",
    "versions.memories": _TOTALS,
    "versions.total_bytes": _TOTALS,
    "versions.text_of": _EQUAL,
    "versions": _GAP,
    "versions.memory": _GAP,
    "versions.actor": _NAMES,
    "versions.id": "The id of a version without a text of its own has no second copy, except for its time",
    "versions.provenance": "The provenance of an older version has no second copy; that it can be read is checked",
    "versions.redacted_at": _REDACTED,
    "versions.redacted_by": _NAMES,
    "versions.operation": "Retention and redaction leave gaps between revisions; then each sequence is possible",
    "versions.path": "The path of an older version has no second copy",
    "versions.revision": "Removed versions leave the same gaps between revisions",
    "records": _RECORDS,
    "records.store": _RECORDS,
    "records.kind": "Other programs may keep records of kinds that retentive does not know",
    "records.name": _RECORDS,
    "records.value": _RECORDS,
    "a file of a memory": _EDIT,
    "packs": "The byte belongs to a text that was erased or removed",
    "the database file": "The byte is in a free page or in a column above",
}
"""Why nothing can tell, by column, table or kind of file. The table in docs/doctor.md has the same lines."""


@dataclass
class Tally:
    """Results of many corruptions."""

    counts: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)
    worse: list[str] = field(default_factory=list)

    def judge(self, corruption: Corruption, findings: list[Finding]) -> None:
        problems = [one for one in findings if one.severity != "ok"]
        if not problems:
            self.counts["not found"] += 1
            if corruption.where not in REASONS:
                self.unknown.append(f"not found: {corruption}")
        elif not is_named(corruption, problems):
            self.counts["found"] += 1
            if corruption.where not in REASONS:
                self.unknown.append(f"not named: {corruption}: {[(one.code, one.subject) for one in problems]}")
        else:
            self.counts["found and named"] += 1

    def compare(self, corruption: Corruption, before: Texts, after: Texts, original: Texts) -> None:
        """After a repair, each text that could be read is as before, and others are texts of versions that are left.

        The index of memories follows the versions, so a version with the id of another memory replaces that memory.
        """
        if corruption.where == "versions.memory":
            return
        for key, text in before.items():
            if after.get(key) != text:
                self.worse.append(f"{corruption}: {key} was {text!r} and is {after.get(key)!r}")
        for key in after.keys() - before.keys():
            if after[key] not in original.values():
                self.worse.append(f"{corruption}: {key} became {after[key]!r}")

    def check(self) -> None:
        kinds = Counter(one.partition(" (")[0] for one in self.unknown)
        assert (kinds, self.worse[:12]) == ({}, []), (self.counts, self.unknown[:12], self.worse[:12])


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("backend", ["sqlite", "directory"])
def test_rows_and_columns(backend: str, part: str, tmp_path: Path) -> None:
    """Servers have the same tables and checks; test_broken_rows.py runs there too."""
    judge_local_rows(backend, part, COUNT, tmp_path).check()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("backend", ["sqlite", "directory"])
def test_bytes_of_files(backend: str, part: str, tmp_path: Path) -> None:
    """The file of SQLite, and the files of a directory. An edit of a plain file is an external edit."""
    judge_files(backend, part, COUNT, tmp_path).check()


@pytest.mark.parametrize("part", PARTS)
def test_objects(part: str, tmp_path: Path) -> None:
    """Of an in-memory object storage: manifests, pages, packs and keys."""
    judge_objects(part, COUNT, tmp_path).check()


def judge_local_rows(backend: str, seed: str, count: int, directory: Path) -> Tally:
    base, copy, other = (directory / name for name in ("base", "copy", "other"))
    filled(backend, base)
    copied(base, copy)
    rows, place = rows_of(backend, copy), place_of(backend, copy)
    dump, tally = rows.dump(), Tally()
    paths, ids = paths_of(dump), ids_of(dump)
    original = texts_of(place, paths, ids)
    for corruption in rows.corruptions(seed):
        copied(base, copy)
        try:
            corruption.apply()
        except Impossible:
            continue
        before = texts_of(place_of(backend, copied(copy, other)), paths, ids)
        tally.judge(corruption, list(check_location(place)))
        list(check_location(place, repair=True))
        tally.compare(corruption, before, texts_of(place, paths, ids), original)
        if tally.counts.total() == count:
            break
    return tally


def judge_files(backend: str, seed: str, count: int, directory: Path) -> Tally:
    base, copy = directory / "base", directory / "copy"
    filled(backend, base)
    copied(base, copy)
    place, tally = place_of(backend, copy), Tally()
    dump = rows_of(backend, copy).dump()
    paths, ids = paths_of(dump), ids_of(dump)
    original = texts_of(place, paths, ids)
    files = [path for path in base.rglob("*") if path.is_file() and (path.suffix == ".db" or "memories" in path.parts)]
    names = [str(path.relative_to(base)) for path in files]

    def write(name: str, data: bytes | None) -> None:
        if data is None:
            (copy / name).unlink()
        else:
            (copy / name).write_bytes(data)

    def kind_of(name: str) -> str:
        return "the database file" if name.endswith("memory.db") else "a file of a memory"

    made = Bytes(names, lambda name: (base / name).read_bytes(), write, kind_of)
    for corruption in made.corruptions(seed):
        if tally.counts.total() == count:
            break
        copied(base, copy)
        corruption.apply()
        before = texts_of(place_of(backend, copied(copy, directory / "other")), paths, ids)
        with suppress(NotFound):  # the only file of the location is lost, as every command says
            path = corruption.named[0].partition("memories/")[2]
            named = ("",) if corruption.where == "the database file" else (f"/memories/{path}",)
            tally.judge(replace(corruption, named=named), list(check_location(place)))
            list(check_location(place, repair=True))
            tally.compare(corruption, before, texts_of(place, paths, ids), original)
    return tally


def judge_objects(seed: str, count: int, directory: Path) -> Tally:
    name, numbers = f"memory://{directory.name}{directory.parent.name}", iter(range(10_000))
    made, objects = filled_objects(name)
    stores = [MemoryStore(ObjectsBackend(name), info) for info in made]
    versions = [version for store in stores for version in store.versions()]
    paths, ids = sorted({version.path for version in versions} - {""}), [version.id for version in versions]
    current = dict(objects)

    def location() -> ObjectsBackend:
        copy = ObjectsBackend(f"{name}{next(numbers)}")
        for key, data in current.items():
            copy._requests.put(key, data)
        return copy

    def read(backend: ObjectsBackend) -> Texts:
        return texts_in(backend, [info.id for info in made], paths, ids)

    def write(key: str, data: bytes | None) -> None:
        current.pop(key)
        current.update({} if data is None else {key: data})

    tally, original = Tally(), read(location())
    for corruption in islice(Bytes(list(objects), objects.__getitem__, write, kind_of_object).corruptions(seed), count):
        current.clear()
        current.update(objects)
        corruption.apply()
        before, copy = read(location()), location()
        named = tuple(part for key in corruption.named for part in key.split("/")[1:])
        if corruption.where == "format":
            named = ("format",)
        elif corruption.where == "keys":  # a finding names the store
            named = tuple(info.id for info in made if _key_object(str(info.key), info.workspace_id) in corruption.named)
        tally.judge(replace(corruption, named=named), list(check(copy)))
        with suppress(RetentiveError):
            capabilities.rebuild(copy)
        tally.compare(corruption, before, read(copy), original)
    return tally


def fill_place(place: str) -> None:
    with reproducible("rows") as clock, open_reproducibly(place, clock) as found:
        fill_stores(found.store(), found.store("walked"))


def rows_of(backend: str, directory: Path) -> SqliteRows:
    return SqliteRows(directory / ("memory.db" if backend == "sqlite" else "memory/.retentive/memory.db"))


def filled(backend: str, directory: Path) -> SqliteRows:
    """Fill a new SQLite file or directory."""
    directory.mkdir(parents=True)
    fill_place(place_of(backend, directory))
    rows = rows_of(backend, directory)
    rows.forget_marks()
    return rows


def filled_objects(name: str) -> tuple[list[StoreInfo], dict[str, bytes]]:
    """Fill a new object storage, with a tree of several levels. Returns its stores and objects."""
    with reproducible("objects") as clock:
        backend = ObjectsBackend(name, clock=clock, new_id=new_id, sizes=Sizes(log=8, page=8, fan_out=4))
        made = [backend.create_store(key=key, name=key) for key in ("default", "walked")]
        fill_stores(*(MemoryStore(backend, info, clock=clock) for info in made))
        many = [Created(f"/memories/many/{number}", b"x%d" % number) for number in range(40)]
        backend.write(made[1].id, lambda tx: tx.record(many, None))
        for info in made:
            sweep(backend._manifests.live(info.id), backend._reader(info.id))
    return made, {key: backend._requests.get(key)[0] for key in backend._requests.names("")}


def kind_of_object(name: str) -> str:
    parts = name.split("/")
    return parts[2] if parts[0] == "stores" else parts[0]


def test_the_reasons_are_documented() -> None:
    text = PAGE.read_text("utf-8")
    for where, reason in REASONS.items():
        assert f"| {where if ' ' in where else f'`{where}`'} | {reason}. |" in text


def paths_of(dump: Dump) -> list[str]:
    return sorted({str(row[1]) for row in dump["memories"]} | {str(row[4]) for row in dump["versions"]} - {""})


def ids_of(dump: Dump) -> list[str]:
    return sorted(str(row[1]) for row in dump["versions"])
