"""Idle memories expire according to a clock that the tests advance. Other memories do not expire."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time as real_time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import retentive
from retentive import Actor, InvalidInput, Memory, MemoryStore, Retentive
from retentive.engine.access_times import KIND
from retentive.engine.core import StoreCore
from retentive.history import expiry
from retentive.history.expiry import days_allowed
from retentive.storage.contract import Transaction
from retentive.store import core_of
from retentive.values.settings import DEFAULTS
from support.clock import DAY, Clock
from support.command_line import here
from support.places import LASTING, opened

A, B, C = "/memories/a", "/memories/b", "/memories/scratch/c"


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def _pieces_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine, pieces become smaller."""
    monkeypatch.setattr(expiry, "perf_counter", lambda: 0.0)


@pytest.fixture
def place(backend: str, tmp_path: Path, time: Clock) -> Iterator[Retentive]:
    """Location that sweeps by itself."""
    with opened(backend, tmp_path, clock=time) as made:
        yield made


@pytest.fixture
def store(backend: str, tmp_path: Path, time: Clock) -> Iterator[MemoryStore]:
    """Store that is swept by the test alone."""
    with opened(backend, tmp_path, clock=time, sweep=False) as made:
        yield made.store()


def create(store: MemoryStore, *paths: str) -> None:
    for path in paths:
        assert not store.execute({"command": "create", "path": path, "file_text": path}).is_error


def run(store: MemoryStore, command: str, **fields: Any) -> str:
    return store.execute({"command": command, **fields}).text


def paths(store: MemoryStore) -> list[str]:
    return [memory.path for memory in store.memories()]


def test_idle_memories_are_deleted(store: MemoryStore, time: Clock) -> None:
    """The actor of the deletions is `job:expiry`.

    A dry run only reports. Views, writes and renames keep a memory alive.
    """
    store.change_settings({"expire_after_days": 30})
    written, viewed, renamed, listed = (f"/memories/{name}" for name in ("written", "viewed", "renamed", "listed"))
    create(store, A, written, viewed, renamed, listed)
    time.pass_days(20)
    assert store.sweep(accept_clock=True).expired == ()
    run(store, "insert", path=written, insert_line=0, insert_text="more")
    run(store, "view", path=viewed)
    run(store, "rename", old_path=renamed, new_path=B)
    run(store, "view", path="/memories")  # a listing does not count as a view
    time.pass_days(10.5)
    told = store.sweep(dry_run=True, accept_clock=True)
    assert [(one.path, one.idle_days) for one in told.expired] == [(A, 30.5), (listed, 30.5)]
    assert len(paths(store)) == 5
    swept = store.sweep(accept_clock=True)
    assert swept == told
    assert paths(store) == [B, viewed, written]
    newest = store.versions()[0]
    assert (newest.operation, newest.path, newest.actor) == ("deleted", listed, Actor("job", "expiry"))
    time.pass_days(20)
    assert [one.path for one in store.sweep(accept_clock=True).expired] == [B, viewed, written]
    assert store._core.backend.read(store.id, lambda found: list(found.records(KIND))) == []


def test_path_patterns_have_their_own_idle_days(store: MemoryStore, time: Clock) -> None:
    """A pattern overrides the rule of the store. With 0 days, memories never expire."""
    store.change_settings({"expire_after_days": 30, "expire_paths": {"/memories/scratch/**": 7, "/memories/keep": 0}})
    create(store, A, C, "/memories/keep/x")
    time.pass_days(8)
    assert [one.path for one in store.sweep(accept_clock=True).expired] == [C]
    time.pass_days(30)
    assert [one.path for one in store.sweep(accept_clock=True).expired] == [A]
    assert paths(store) == ["/memories/keep/x"]


def test_read_only_memories_are_kept_and_reported(store: MemoryStore, time: Clock) -> None:
    """Expiry may not change read-only memories either."""
    create(store, A, C)
    store.change_settings({"expire_after_days": 1, "read_only_paths": ["/memories/scratch"]})
    time.pass_days(2)
    for swept in (store.sweep(dry_run=True, accept_clock=True), store.sweep(accept_clock=True)):
        assert [one.path for one in swept.expired] == [A]
        assert [one.path for one in swept.kept_read_only] == [C]
    assert paths(store) == [C]


@pytest.mark.parametrize("backend", LASTING)
def test_views_count_after_a_restart(backend: str, tmp_path: Path, time: Clock) -> None:
    """Views are saved when the location is closed.

    A later process that opens the store sweeps, and it knows the views.
    """
    with opened(backend, tmp_path, clock=time) as place:
        store = place.store()
        store.change_settings({"expire_after_days": 30})
        create(store, A, B)
        time.pass_days(29)
        store.sweep(accept_clock=True)
        run(store, "view", path=A)
    time.pass_days(2)
    with opened(backend, tmp_path, clock=time) as place:
        assert paths(place.store()) == [A]


def test_old_versions_are_pruned_after_their_retention(store: MemoryStore, time: Clock) -> None:
    """The newest versions of each memory are kept, however old they are. This includes deleted memories."""
    store.change_settings({"keep_versions_days": 30, "keep_versions": 3})
    create(store, A, B)
    for number in range(5):
        time.pass_days(10)
        run(store, "insert", path=A, insert_line=0, insert_text=str(number))
    run(store, "delete", path=B)
    assert (
        store.sweep(dry_run=True, accept_clock=True).versions_pruned
        == store.sweep(accept_clock=True).versions_pruned
        == 1
    )
    kept = [version.operation for version in store.versions(A)]
    assert kept == ["modified"] * 5  # the first version was replaced 40 days ago
    assert len(list(store.versions(B))) == 2
    time.pass_days(30.1)
    assert store.sweep(accept_clock=True).versions_pruned == 2
    assert [version.path for version in store.versions()] == [B, A, A, A, B]
    assert store.history.restore(B, list(store.versions(B))[-1].id).done
    assert store.read(B) == B
    assert store.read(A) == "4\n3\n2\n1\n0\n" + A + "\n"


def test_versions_of_a_deleted_memory_are_pruned_without_keep_versions(store: MemoryStore, time: Clock) -> None:
    """The deletion is pruned last, because it hides the older versions."""
    store.change_settings({"keep_versions_days": 30, "keep_versions": 0})
    create(store, A)
    run(store, "delete", path=A)
    time.pass_days(31)
    assert store.sweep(accept_clock=True).versions_pruned == 2
    assert list(store.versions()) == []


def test_old_versions_go_although_the_others_cannot_be_packed(tmp_path: Path, time: Clock) -> None:
    with opened("sqlite", tmp_path, clock=time, sweep=False, keep_versions_days=30, keep_versions=2) as place:
        store = place.store()
        create(store, A)
        for number in range(3):
            store.write(A, f"{number}")
        with closing(sqlite3.connect(tmp_path / "memory.db")) as foreign:
            foreign.execute("CREATE TRIGGER full BEFORE INSERT ON packs BEGIN SELECT RAISE(ABORT, 'no packs'); END")
        time.pass_days(31)
        with pytest.raises(sqlite3.IntegrityError, match="no packs"):
            store.sweep(accept_clock=True)
        assert [store.version_text(version.id) for version in store.versions()] == ["2", "1"]


def test_read_only_memories_keep_their_versions(store: MemoryStore, time: Clock) -> None:
    """This includes deleted memories, read-only paths and read-only stores."""
    store.change_settings({"keep_versions_days": 30, "keep_versions": 1})
    create(store, A, B, C)
    for path in (A, C):
        run(store, "insert", path=path, insert_line=0, insert_text="more")
    run(store, "delete", path=B)
    time.pass_days(31)
    store.change_settings({"read_only_paths": [A, B]})
    assert store.sweep(dry_run=True, accept_clock=True).versions_pruned == 1
    assert store.read_only().sweep(accept_clock=True).versions_pruned == 0
    assert store.sweep(accept_clock=True).versions_pruned == 1
    assert [len(list(store.versions(path))) for path in (A, B, C)] == [2, 2, 1]


def test_the_longest_of_several_patterns_applies() -> None:
    """The value 0 counts as the longest time."""
    settings = DEFAULTS.changed({"expire_paths": {"/memories/**": 5, "/memories/a": 9, "/memories/a/b": 0}})
    allowed = [days_allowed(path, settings) for path in ("/memories/x", "/memories/a/x", "/memories/a/b/c")]
    assert allowed == [5, 9, 0]


def test_an_open_location_prunes_by_itself(place: Retentive, time: Clock) -> None:
    """After a write or at an opening. Nobody runs a command or a server."""
    store = place.store()
    store.change_settings({"keep_versions_days": 30})
    for number in range(250):
        store.write(A, f"{number}")
    for day in range(5):
        time.pass_days(6.5)
        store.write(B, f"{day}")
    left = [len(store.versions(path=A))]
    while left[-1] > 10:  # each write does one piece, and what is superseded is packed first
        assert len(left) < 6
        store.write(C, f"{len(left)}")
        left.append(len(store.versions(path=A)))
    assert set(left) == {50, 10}  # 200 went with the last of the writes above
    assert store.read(A) == "249"


@pytest.mark.parametrize("settings", [{}, {"expire_after_days": 20}], ids=["prunes", "expires and prunes"])
def test_short_processes_sweep_the_whole_store_in_turn(settings: dict[str, int], tmp_path: Path, time: Clock) -> None:
    """Each goes on where the last one ended, so that the end of a long history has its turn."""
    with opened("sqlite", tmp_path, clock=time, sweep=False) as place:
        store = place.store()
        store.change_settings({"keep_versions_days": 30, **settings})
        create(store, *(f"/memories/d/{number:03}" for number in range(250)))
        for number in range(30):
            store.write("/memories/a", f"{number}")
            store.write("/memories/z", f"{number}")
    for _ in range(8):
        time.pass_days(31)
        with opened("sqlite", tmp_path, clock=time) as place:
            place.store().write("/memories/b", f"{time.now}")
            place._upkeep.clear()  # as if the process were killed: no pieces at close
    with opened("sqlite", tmp_path, clock=time, sweep=False) as place:
        store = place.store()
        assert [len(store.versions(path=path)) for path in ("/memories/a", "/memories/z")] == [10, 10]
        assert len(paths(store)) == (253 if not settings else 1)


@contextmanager
def writing(place: Retentive) -> Iterator[Event]:
    """Write in another thread until the context ends. Yields an event; the write ends when it is set."""
    begun, ended, was_ended = Event(), Event(), []

    def hold(tx: Transaction) -> None:
        tx.put_record("x", "y", "z")
        begun.set()
        was_ended.append(ended.wait(20))

    thread = Thread(target=lambda: core_of(place.store()).follow_up(hold))
    thread.start()
    try:
        assert begun.wait(60)
        yield ended
    finally:
        ended.set()
        thread.join()
    assert set(was_ended) == {True}, "the write ended only because the view waited for it"


@pytest.mark.parametrize("is_same", [True, False], ids=["of this process", "of another process"])
@pytest.mark.parametrize("backend", LASTING)
def test_a_view_never_waits_for_a_writer(backend: str, is_same: bool, tmp_path: Path, time: Clock) -> None:
    """The access times that are due are recorded with a later view, when no writer holds the lock."""
    with opened(backend, tmp_path, clock=time) as place, opened(backend, tmp_path, clock=time) as other:
        store = place.store()
        create(store, A, B)
        time.pass_days(1)
        run(store, "view", path=A)
        time.pass_days(1)
        with writing(place if is_same else other):
            run(store, "view", path=B)
        time.pass_days(1)
        run(store, "view", path=A)
        noted = dict(place.backend.read(store.id, lambda found: list(found.records(KIND))))
        assert set(noted) == {store.load(path)[0].id for path in (A, B)}


def test_a_sweep_knows_the_views_that_are_not_recorded_yet(tmp_path: Path, time: Clock) -> None:
    with opened("sqlite", tmp_path, clock=time) as place:
        store = place.store()
        create(store, A, B)
        time.pass_days(9)
        run(store, "view", path=A)
        store.change_settings({"expire_after_days": 5})
        with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            swept = store.sweep(dry_run=True, accept_clock=True)
        assert [each.path for each in swept.expired] == [B]


def test_an_open_location_expires_idle_memories_by_itself(place: Retentive, time: Clock) -> None:
    """After a write, at most once a day, as versions by `job:expiry`. Nobody runs a command or a server."""
    store = place.store()
    store.change_settings({"expire_after_days": 5})
    create(store, A, B)
    time.pass_days(4)
    run(store, "view", path=B)
    time.pass_days(2)
    create(store, C)
    assert paths(store) == [B, C]
    gone = next(iter(store.versions(path=A)))
    assert (gone.operation, str(gone.actor)) == ("deleted", "job:expiry")
    time.pass_days(4)
    create(store, A)
    assert paths(store) == [A, C]


def test_a_process_that_never_closes_sweeps_when_it_exits(tmp_path: Path) -> None:
    program = """
import sys, retentive
now = [1_800_000_000.0]
store = retentive.open(sys.argv[1], clock=lambda: now[0]).store()
store.change_settings({"expire_after_days": 5})
store.write("/memories/a", "x")
store.write("/memories/b", "x")
now[0] += 6 * 86_400
store.view("/memories/b")
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "memory")], check=True, timeout=60)
    assert os.listdir(tmp_path / "memory" / "memories") == ["b"]


def test_one_process_sweeps_for_all(tmp_path: Path, time: Clock) -> None:
    """The day of the last sweep stands in the location. `sweep=False` never sweeps."""
    with (
        opened("sqlite", tmp_path, clock=time) as one,
        opened("sqlite", tmp_path, clock=time) as other,
        opened("sqlite", tmp_path, clock=time, sweep=False) as looking,
    ):
        stores = [place.store() for place in (one, other, looking)]
        stores[0].change_settings({"expire_after_days": 5})
        create(stores[0], A)
        time.pass_days(0.5)
        create(stores[0], B)
        time.pass_days(4.6)
        create(stores[2], "/memories/1")
        assert paths(stores[2]) == ["/memories/1", A, B]
        create(stores[0], "/memories/2")
        assert paths(stores[2]) == ["/memories/1", "/memories/2", B]
        time.pass_days(0.9)
        create(stores[1], "/memories/3")
        assert B in paths(stores[2])
        time.pass_days(0.1)
        create(stores[1], "/memories/4")
        assert B not in paths(stores[2])


def test_a_write_waits_for_a_small_piece_only(place: Retentive, time: Clock) -> None:
    """Each write deletes at most 100 idle memories, fewer if they take long. One viewed between two pieces is kept."""
    store = place.store()
    store.change_settings({"expire_after_days": 5})
    idle = [f"/memories/d/{number:03}" for number in range(250)]
    create(store, *idle)
    time.pass_days(6)
    create(store, A)
    assert len(paths(store)) == 151
    run(store, "view", path=idle[-1])
    for _ in range(20):
        run(store, "insert", path=A, insert_line=0, insert_text="x")
    assert paths(store) == [A, idle[-1]]
    sizes = Counter(version.revision for version in store.versions() if version.operation == "deleted")
    assert (sum(sizes.values()), max(sizes.values())) == (249, 100)


def test_memories_changed_during_a_sweep_are_kept(
    place: Retentive, time: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory that changed is not deleted, and neither is a new memory at the path of an expired one."""
    place._sweeps = False
    store = place.store()
    create(store, A, B, C)
    store.change_settings({"expire_after_days": 5})
    time.pass_days(6)
    idle = expiry._idle

    def before_changes(
        context: StoreCore, start: str, now: float, *, at_once: int
    ) -> tuple[list[tuple[Memory, float]], str]:
        found = idle(context, start, now, at_once=at_once)
        run(store, "insert", path=A, insert_line=0, insert_text="new")
        run(store, "delete", path=B)
        create(store, B)
        return found

    monkeypatch.setattr(expiry, "_idle", before_changes)
    assert [one.path for one in store.sweep(accept_clock=True).expired] == [C]
    assert paths(store) == [A, B]


def test_the_pruned_bound_never_moves_back(store: MemoryStore, time: Clock) -> None:
    """A later sweep that prunes only older versions does not lower the bound."""
    store.change_settings({"keep_versions_days": 30, "keep_versions": 2})
    began = time.now
    create(store, A, B)
    for day, path in ((10, A), (15, B), (50, B)):
        time.now = began + day * DAY
        run(store, "insert", path=path, insert_line=0, insert_text="more")
    time.now = began + 60 * DAY
    assert store.sweep(accept_clock=True).versions_pruned == 1
    then = datetime.fromtimestamp(began + 12 * DAY, UTC)
    with pytest.raises(InvalidInput, match="were pruned"):
        store.history.text_at(A, then)
    store.change_settings({"keep_versions": 1})
    assert store.sweep(accept_clock=True).versions_pruned == 1
    with pytest.raises(InvalidInput, match="were pruned"):
        store.history.text_at(A, then)
    assert store.history.text_at(B, datetime.fromtimestamp(began + 15 * DAY, UTC))[1] == f"more\n{B}\n"


def test_a_memory_may_be_idle_for_all_of_its_days(tmp_path: Path, time: Clock) -> None:
    """The limit is exact to the second after a write or a view, although not every view is saved."""
    with opened("memory", tmp_path, clock=time) as place:
        store = place.store()
        store.change_settings({"expire_after_days": 5})
        create(store, A, B)
        for _ in range(5):
            time.now += 600
            run(store, "view", path=A)
        time.now += 5 * DAY - 3_000
        assert store.sweep(accept_clock=True).expired == ()
        time.now += 1
        assert [one.path for one in store.sweep(accept_clock=True).expired] == [B]
        time.now += 2_999
        assert store.sweep(accept_clock=True).expired == ()
        time.now += 1
        assert [one.path for one in store.sweep(accept_clock=True).expired] == [A]


LOOKING = (
    "admin sweep --dry-run", "ls", "view /memories/a", "cat /memories/a", "stores",
    "search memories", "log", "admin stats", "settings show", "settings set max_memories=50", "review list",
    "admin audit show", "admin scan", "doctor",
)  # fmt: skip


def idle_for_a_year(at: str) -> None:
    """Location with a memory that has been idle for a year and may be idle for 90 days."""
    with retentive.open(at, clock=lambda: real_time.time() - 365 * DAY) as place:
        create(place.store(), A)
    with retentive.open(at, sweep=False) as place:
        place.store().sweep(accept_clock=True)
        place.store().change_settings({"expire_after_days": 90})


def test_read_commands_expire_nothing(tmp_path: Path) -> None:
    """Commands that change settings expire nothing either, because the user may want to save the memory."""
    at = f"sqlite:///{tmp_path}/m.db"
    idle_for_a_year(at)
    assert [here(at, *command.split()).exit_code for command in LOOKING] == [0] * len(LOOKING)
    with retentive.open(at, sweep=False) as place:
        assert [(version.operation, version.path) for version in place.store().versions()] == [("created", A)]


@pytest.mark.long
def test_a_sweep_does_not_load_the_history(time: Clock) -> None:
    """A history that is five times as long needs no more memory, in a sweep as in its preview."""
    peaks = []
    for versions in (300, 1_500):
        with retentive.open("sqlite://", clock=time) as place:
            store = place.store()
            store.change_settings({"keep_versions_days": 30})
            for number in range(versions):
                store.write(A, f"{number}")
            store.sweep(accept_clock=True)  # imports what it needs
            tracemalloc.start()
            store.sweep(dry_run=True, accept_clock=True)
            store.sweep(accept_clock=True)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]
