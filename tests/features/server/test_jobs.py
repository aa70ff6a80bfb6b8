"""Jobs on a schedule: when they are due, that one process runs them, and their outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import pytest

import retentive
from retentive.errors import InvalidInput, Unavailable
from retentive.server import jobs
from retentive.server.jobs import KIND, Scheduler, job_states
from retentive.server.options import ServeOptions
from retentive.server.schedule import ScheduledJob, read_schedule
from support.command_line import here
from support.http_api import serving

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
HOURLY = ScheduledJob("sweep", "every 1h", 3_600, None)


class Times:
    """Wall clock and monotonic clock."""

    def __init__(self) -> None:
        self.now = NOW.timestamp()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[retentive.Retentive]:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as found:
        yield found


def scheduler(opened: retentive.Retentive, times: Times, *scheduled: ScheduledJob, name: str = "a") -> Scheduler:
    return Scheduler(opened, scheduled, holder=name, lease_s=10, clock=times, monotonic=times)


def always() -> bool:
    return True


def replace_work(monkeypatch: pytest.MonkeyPatch, work: Callable[[], str]) -> None:
    monkeypatch.setitem(jobs.WORK, "sweep", lambda *_: work())


def test_a_schedule(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(
        f'[sweep]\nevery = "15m"\n[backup]\nat = "03:05"\ndirectory = "{tmp_path}"\nkeep = 2\n'
        f'[anchor]\nevery = "1d"\ndirectory = "{tmp_path}"\nkey = "k"\n[collect]\nevery = "2h"\n'
    )
    sweep, backup, anchor, collect = read_schedule(str(file))
    assert (sweep.every_s, anchor.every_s, collect.every_s) == (900, 86_400, 7_200)
    assert (backup.schedule, backup.at, backup.fields) == (
        "at 03:05 UTC",
        (3, 5),
        {"directory": str(tmp_path), "keep": 2},
    )
    ServeOptions("sqlite://", schedule=str(file)).check()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[other]\nevery='1h'", "there is no job"),
        ("[sweep]", "but not both"),
        ("sweep = 1", "but not both"),
        ("[sweep]\nevery='1h'\nat='03:00'", "but not both"),
        ("[sweep]\nevery='1s'", "must look like"),
        ("[sweep]\nevery='0h'", "must look like"),
        ("[sweep]\nat='24:00'", "must look like"),
        ("[sweep]\nevery='1h'\nx=1", "does not support the field x"),
        ("[backup]\nevery='1h'", "needs the field directory"),
        ("[backup]\nevery='1h'\ndirectory='/nowhere/at/all'", "does not exist"),
        ("[backup]\nevery='1h'\ndirectory='/'\nkeep='x'", "a number of at least 1"),
        ("[backup]\nevery='1h'\ndirectory='/'\nkeep=0", "a number of at least 1"),
        ("sweep", "not valid TOML"),
    ],
)
def test_a_wrong_schedule(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "jobs.toml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        ServeOptions("sqlite://", schedule=str(file)).check()


def test_a_job_runs_when_it_is_due(opened: retentive.Retentive, times: Times) -> None:
    store = opened.store()
    store.change_settings({"expire_after_days": 1})
    store.write("/memories/a", "x")
    run = scheduler(opened, times, HOURLY)
    run(always)
    (state,) = job_states(opened.records)
    assert (state.state, state.message) == ("succeeded", "1 memory stores: 0 memories expired, 0 versions removed")
    assert (state.started_at, state.due_at) == (NOW.isoformat(), (NOW + timedelta(hours=1)).isoformat())
    times.now += 3_599
    run(always)
    assert job_states(opened.records) == [state]
    times.now += 1
    run(always)
    assert job_states(opened.records)[0].started_at == (NOW + timedelta(hours=1)).isoformat()


def test_a_failed_job_is_tried_again(
    opened: retentive.Retentive, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> str:
        raise Unavailable("secret text")

    replace_work(monkeypatch, fails)
    run = scheduler(opened, times, HOURLY)
    run(always)
    (state,) = job_states(opened.records)
    assert (state.state, state.message) == ("failed", "unavailable")
    assert state.due_at == (NOW + timedelta(minutes=10)).isoformat()
    replace_work(monkeypatch, lambda: "done")
    times.now += 600
    run(always)
    assert job_states(opened.records)[0].state == "succeeded"


def test_a_job_never_runs_twice_at_once(
    opened: retentive.Retentive, times: Times, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process, which leads by now, leaves it alone while its record grows, at any time of the wall clock."""
    began, end, runs = Event(), Event(), list[str]()

    def work() -> str:
        runs.append("run")
        began.set()
        assert end.wait(30)
        return "done"

    replace_work(monkeypatch, work)
    quick = Scheduler(opened, [HOURLY], holder="a", lease_s=0.05, clock=times)
    first = Thread(target=quick, args=(always,))
    first.start()
    assert began.wait(30)
    second = scheduler(opened, times, HOURLY, name="b")
    beats = set[int]()
    while len(beats) < 3:
        beat = job_states(opened.records)[0].beat
        if beat not in beats:
            beats.add(beat)
            times.now += 9
        second(always)
    end.set()
    first.join()
    assert runs == ["run"]
    assert job_states(opened.records)[0].message == "done"


def test_a_job_of_a_killed_process_runs_again(opened: retentive.Retentive, times: Times) -> None:
    """Its record does not grow any more, so another process takes it after a lease."""
    killed = scheduler(opened, times, HOURLY)
    assert killed._begun(HOURLY) is not None
    second = scheduler(opened, times, HOURLY, name="b")
    second(always)
    times.now += 9
    second(always)
    assert [(each.state, each.holder) for each in job_states(opened.records)] == [("running", "a")]
    times.now += 1
    second(always)
    assert [(each.state, each.holder) for each in job_states(opened.records)] == [("succeeded", "b")]


def test_backups_are_made_and_old_ones_removed(opened: retentive.Retentive, times: Times, tmp_path: Path) -> None:
    opened.store().write("/memories/a", "x")
    directory = tmp_path / "backups"
    directory.mkdir()
    (directory / "other.tar.gz").touch()
    run = scheduler(
        opened, times, ScheduledJob("backup", "every 1h", 3_600, None, {"directory": str(directory), "keep": 2})
    )
    for _ in range(3):
        run(always)
        times.now += 3_600
    assert len(list(directory.glob("retentive-*.tar.gz"))) == 2
    assert (directory / "other.tar.gz").exists()
    newest = max(directory.glob("retentive-*.tar.gz"))
    assert here(f"sqlite:///{tmp_path}/copy.db", "restore-backup", str(newest)).exit_code == 0
    with retentive.open(f"sqlite:///{tmp_path}/copy.db") as copy:
        assert copy.store().read("/memories/a") == "x"


def test_audit_logs_are_anchored(opened: retentive.Retentive, times: Times, tmp_path: Path) -> None:
    key = tmp_path / "anchor.key"
    assert here(f"sqlite:///{tmp_path}/memory.db", "audit", "key", str(key)).exit_code == 0
    store = opened.store()
    store.change_settings({"audit": True})
    store.write("/memories/a", "x")
    opened.store("without")
    fields = {"directory": str(tmp_path), "key": str(key)}
    scheduler(opened, times, ScheduledJob("anchor", "every 1h", 3_600, None, fields))(always)
    (state,) = job_states(opened.records)
    assert (state.state, state.message) == ("succeeded", "1 audit logs anchored, 0 unchanged")
    assert store.audit.verify(anchor=str(tmp_path / f"{store.id}.anchors"), key=str(key)).is_sound


def test_the_route_of_jobs(opened: retentive.Retentive, times: Times) -> None:
    scheduler(opened, times, HOURLY, ScheduledJob("collect", "every 1d", 86_400, None))(always)
    with serving(opened) as api:
        found = api.get("/v1/jobs").body["data"]
        assert api.with_key("read", "write").get("/v1/jobs").status == 403
    assert [(each["name"], each["state"], each["schedule"]) for each in found] == [
        ("collect", "succeeded", "every 1d"),
        ("sweep", "succeeded", "every 1h"),
    ]
    assert found[1]["started_at"] == "2026-05-01T12:00:00Z"
    assert json.loads(opened.records.get(KIND, "sweep") or "")["holder"] == "a"
