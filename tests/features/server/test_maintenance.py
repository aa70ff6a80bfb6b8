"""Maintenance of a location: when a server runs it, what it does, and what is shown of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive.errors import Unavailable
from retentive.server.background import Maintenance, last_run, maintain
from support.command_line import here
from support.http_api import serving

DAY_S = 86_400


class Times:
    """A wall clock that can jump, and a monotonic clock that cannot."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.steady = 0.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[retentive.Retentive]:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db", sweep=False) as found:
        found.store().write("/memories/a", "x")
        yield found


def process(opened: retentive.Retentive, times: Times) -> Maintenance:
    """The maintenance of a new server process."""
    return Maintenance(opened, clock=lambda: times.wall, monotonic=lambda: times.steady)


def ends(opened: retentive.Retentive) -> float:
    run = last_run(opened.records)
    assert run is not None
    return run.finished_at


def test_it_runs_at_the_start_and_then_hourly(opened: retentive.Retentive, times: Times) -> None:
    work = process(opened, times)
    work(lambda: True)
    first = ends(opened)
    assert first == times.wall
    times.passes(3_599)
    work(lambda: True)
    assert ends(opened) == first
    times.passes(1)
    work(lambda: True)
    assert ends(opened) == times.wall


def test_another_process_waits_for_the_rest_of_the_hour(opened: retentive.Retentive, times: Times) -> None:
    process(opened, times)(lambda: True)
    first = ends(opened)
    times.passes(1_800)
    second = process(opened, times)
    second(lambda: True)
    assert ends(opened) == first
    times.passes(1_800)
    second(lambda: True)
    assert ends(opened) == times.wall


@pytest.mark.parametrize("is_other", [False, True])
@pytest.mark.parametrize("jump_s", [40 * DAY_S, -40 * DAY_S])
def test_a_clock_that_was_wrong_delays_nothing(
    opened: retentive.Retentive, times: Times, jump_s: int, is_other: bool
) -> None:
    """One run sees a clock that is 40 days ahead or behind. Then it is right again: the next run is within the hour.

    Another process runs it at once.
    """
    times.wall += jump_s
    work = process(opened, times)
    work(lambda: True)
    times.wall -= jump_s
    if is_other:
        work = process(opened, times)
    else:
        times.passes(3_600)
    work(lambda: True)
    assert ends(opened) == times.wall


def has_old_version(tmp_path: Path) -> None:
    """Add a memory store with a version that its settings no longer keep."""
    with retentive.open(f"sqlite:///{tmp_path}/memory.db", clock=lambda: time.time() - 4 * DAY_S) as earlier:
        store = earlier.store("old")
        store.change_settings({"keep_versions": 1, "keep_versions_days": 1})
        store.write("/memories/b", "1")
        store.write("/memories/b", "2")


def test_a_failure_is_reported_and_tried_again_soon(
    opened: retentive.Retentive, times: Times, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other memory stores are maintained. What is shown does not have the text of the error."""
    bad = opened.store("bad")
    has_old_version(tmp_path)
    sweep = retentive.MemoryStore.sweep

    def failing(store: retentive.MemoryStore) -> object:
        if store.id == bad.id:
            raise Unavailable("secret text")
        return sweep(store)

    with monkeypatch.context() as patched:
        patched.setattr(retentive.MemoryStore, "sweep", failing)
        work = process(opened, times)
        work(lambda: True)
    run = last_run(opened.records)
    assert run is not None
    assert (run.stores, run.pruned, run.failed, run.code, run.is_ok) == (2, 1, 1, "unavailable", False)
    assert "secret" not in json.dumps(run.to_json())
    times.passes(600)
    work(lambda: True)
    run = last_run(opened.records)
    assert run is not None
    assert (run.stores, run.is_ok, run.finished_at) == (3, True, times.wall)


def test_a_stop_ends_it_between_two_stores(opened: retentive.Retentive, times: Times) -> None:
    opened.store("second")
    answers = iter([True, False])
    run = maintain(opened, may_go_on=lambda: next(answers))
    assert (run.stores, run.is_whole, run.is_ok) == (1, False, False)


def test_readiness_and_metrics_show_it(opened: retentive.Retentive) -> None:
    with serving(opened) as api:
        assert api.get("/readyz").body == {"status": "ready", "maintenance": None}
        maintain(opened)
        found = api.get("/readyz").body["maintenance"]
    assert found.keys() == {"finished_at", "ok", "code"}  # no totals of workspaces: the route needs no key
    assert (found["ok"], found["code"]) == (True, "")
    assert found["finished_at"].endswith("Z")


def test_the_command_runs_it_now(opened: retentive.Retentive, tmp_path: Path) -> None:
    has_old_version(tmp_path)
    done = here(f"sqlite:///{tmp_path}/memory.db", "admin", "maintain")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "stores\t2\nexpired\t0\npruned\t1\norphans\t0\n"
    run = last_run(opened.records)
    assert run is not None
    assert run.pruned == 1


def test_each_location_keeps_its_own_backups(tmp_path: Path) -> None:
    """Three locations and a file of somebody else in one directory: `--keep 2` leaves two of each, and the file."""
    backups = tmp_path / "backups"
    backups.mkdir()
    (backups / "retentive-20260101T000000000000Z.tar.zst").write_text("of somebody else")
    places = [f"sqlite:///{tmp_path}/{name}.db" for name in "abc"]
    written: dict[str, list[str]] = {}
    for _ in range(4):
        for place in places:
            with retentive.open(place) as location:
                location.store().write("/memories/a", place)
            done = here(place, "admin", "backup", str(backups), "--keep", "2", "--json")
            assert done.exit_code == 0, done.stderr
            found = json.loads(done.stdout)
            assert found["deleted"] == [Path(name).name for name in written.get(place, [])[:-1]][-1:]
            written.setdefault(place, []).append(found["file"])
    kept = {str(path) for path in backups.iterdir()}
    assert kept == {name for names in written.values() for name in names[-2:]} | {
        str(backups / "retentive-20260101T000000000000Z.tar.zst")
    }
    for place, names in written.items():
        copy = f"sqlite:///{tmp_path}/copy-{Path(place).name}"
        assert here(copy, "admin", "restore-backup", names[-1]).exit_code == 0
        with retentive.open(copy) as location:
            assert location.store().read("/memories/a") == place


def test_a_backup_of_one_store_deletes_none_of_all_stores(tmp_path: Path) -> None:
    place, backups = f"sqlite:///{tmp_path}/a.db", tmp_path / "backups"
    backups.mkdir()
    with retentive.open(place) as location:
        location.store("ada").write("/memories/a", "x")
    for chosen in ([], ["--store", "ada"]) * 2:
        done = here(place, "admin", "backup", str(backups), "--keep", "1", *chosen)
        assert done.exit_code == 0, done.stderr
    assert len(list(backups.iterdir())) == 2


def test_a_backup_that_looks_older_than_the_others_is_kept(tmp_path: Path) -> None:
    """The clock was ahead when the others were made."""
    place, backups = f"sqlite:///{tmp_path}/a.db", tmp_path / "backups"
    backups.mkdir()
    with retentive.open(place) as location:
        location.store().write("/memories/a", "x")
    first = json.loads(here(place, "admin", "backup", str(backups), "--keep", "1", "--json").stdout)["file"]
    copied = Path(first).with_name(Path(first).name.replace("Z.tar", " copy of MaZ.tar"))  # by a person
    copied.write_bytes(b"")
    later = Path(first).with_name(Path(first).name[:23] + "29990101T000000000000Z.tar.zst")
    Path(first).rename(later)
    found = json.loads(here(place, "admin", "backup", str(backups), "--keep", "1", "--json").stdout)
    assert found["deleted"] == [later.name]
    assert {str(path) for path in backups.iterdir()} == {found["file"], str(copied)}


def test_keeping_needs_a_directory(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/a.db"
    with retentive.open(place) as location:
        location.store()
    done = here(place, "admin", "backup", str(tmp_path / "none"), "--keep", "1")
    assert done.exit_code == 2
    assert "--keep needs an existing directory" in done.stderr
    done = here(place, "admin", "backup", str(tmp_path))
    assert (done.exit_code, "add --keep N" in done.stderr) == (2, True)
