"""Object storage with many writers: processes take turns, and a waiting writer runs its work once in advance."""

from __future__ import annotations

import multiprocessing
import threading
from functools import partial
from pathlib import Path

import pytest

from retentive.storage.contract import Change, Transaction
from retentive.storage.objects import turns as turns_module
from retentive.storage.objects.backend import open_objects
from retentive.storage.objects.turns import WriterTurns, _own_directory, others_among, turns_on_this_host, window_s
from retentive.testing.backend_suite.opening import A, B, Opened
from retentive.testing.backend_suite.sharing import count_up
from support import servers

PATIENCE_S = 60.0


def commits(*writers: str) -> list[str]:
    """Return one commit id for each of these writers."""
    return [f"{writer}{number:012x}" for number, writer in enumerate(writers)]


def test_the_wait_grows_with_the_number_of_writers() -> None:
    """The wait is proportional to the number of other recent writers. Own commits and old commits do not count."""
    writers = [f"{number:06x}" for number in range(9)]
    assert others_among(commits(*writers), writers[0]) == 8
    assert others_among(commits("00000a", "00000b", "00000bff"), "00000a") == 1
    assert others_among(commits(*writers[1:], *[writers[0]] * 32), writers[0]) == others_among([], writers[0]) == 0
    assert window_s(8, 1.0) == 2 * window_s(4, 1.0) == window_s(4, 2.0)
    assert window_s(0, 1.0) == window_s(1, 1.0) > 0


def test_processes_of_one_host_take_turns(tmp_path: Path) -> None:
    """The second writer of a store finds the lock taken and waits for it. Writers of other stores do not."""
    one, two, other = (turns_on_this_host("place", name, directory=str(tmp_path)) for name in ("s", "s", "t"))
    assert one.commit_id()[:6] == two.commit_id()[:6] != other.commit_id()[:6]
    for turns in (one, two, other):
        turns.begin()
    assert [one.is_seen, two.is_seen, other.is_seen] == [False, True, False]
    waited = threading.Event()

    def wait() -> None:
        two.wait([one.commit_id(), two.commit_id()])
        waited.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not waited.wait(0.2)
    one.end()
    assert waited.wait(PATIENCE_S)
    thread.join()
    one.begin()
    assert one.is_seen
    two.end()
    other.end()


def test_a_stopped_process_delays_the_others_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that waits for the lock in vain goes on without it, and does not wait for it again soon."""
    monkeypatch.setattr(turns_module, "_LOCK_WAIT_S", 0.05)
    stopped, other = (turns_on_this_host("place", "s", directory=str(tmp_path)) for _ in range(2))
    waits = [other._lock_wait_s, turns_on_this_host("place", "s", timeout_s=0.03)._lock_wait_s]
    assert waits == [0.05, 0.01]
    stopped.begin()
    for _ in range(3):
        other.begin()
        other.wait([])
        assert other._lock is None
        other.end()
    assert other._distrusted_until > 0
    stopped.end()


def test_lock_files_are_in_a_directory_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another user could write, or has planted a link, nothing is locked, and each process is a writer."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = _own_directory.__wrapped__()
    assert made is not None
    assert Path(made).stat().st_mode & 0o777 == 0o700
    Path(made).chmod(0o777)
    assert _own_directory.__wrapped__() is None
    Path(made).rmdir()
    Path(made).symlink_to(tmp_path)
    assert _own_directory.__wrapped__() is None
    missing = [turns_on_this_host("place", "s", directory=str(tmp_path / "missing")) for _ in range(2)]
    assert missing[0].commit_id()[:6] != missing[1].commit_id()[:6]
    for turns in missing:
        turns.begin()
        turns.end()


def test_contention_lasts_until_no_other_process_writes() -> None:
    """One lost commit starts the contention; a series of successful commits ends it."""
    contention = WriterTurns("000001")
    seen = [contention.is_seen]
    contention.lost()
    for _ in range(64):
        seen.append(contention.is_seen)
        contention.won()
    assert seen[:9] == [False] + [True] * 8
    assert not seen[-1]


def count_in(url: str, number: int) -> None:
    """Do the work of one process."""
    own = Opened(open_objects(url))
    own.create({f"/memories/{number}": b""})
    count_up(own, 12)


@pytest.mark.long
def test_concurrent_processes_lose_no_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Four processes increment one memory, and each also writes its own."""
    moto = servers.moto()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", moto.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", moto.secret_key)
    bucket = moto.new_bucket("crowded")
    url = f"s3://{bucket}/{tmp_path.name}?endpoint={moto.endpoint}&region={moto.region}&allow_http=true"
    store = Opened(open_objects(url))
    store.create({A: b"0"})
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=count_in, args=(url, number)) for number in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(PATIENCE_S)
    assert [child.exitcode for child in children] == [0] * 4
    assert store.tree() == {A: b"48", **{f"/memories/{number}": b"" for number in range(4)}}
    assert len(store.versions()) == store.revision() == 53


def test_a_waiting_writer_reads_ahead_without_effect(tmp_path: Path) -> None:
    """A writer that waits for another runs its work once as a rehearsal, and again in its turn.

    Only the second run counts.
    """
    store = Opened(open_objects(f"memory://{tmp_path.name}{tmp_path.parent.name}"))
    store.create({A: b"0", B: b"0"})
    started, go, rehearsed = threading.Event(), threading.Event(), threading.Event()
    seen: list[bytes | None] = []

    def first(tx: Transaction) -> None:
        started.set()
        assert go.wait(PATIENCE_S)
        tx.record([Change(tx.get(A).memory, A, b"first")], None)

    def second(tx: Transaction) -> None:
        look = tx.get(A)
        seen.append(look.data)
        tx.record([Change(look.memory, A, (look.data or b"") + b", second")], None)
        rehearsed.set()

    threads = [threading.Thread(target=store.backend.write, args=(store.id, first))]
    threads[0].start()
    assert started.wait(PATIENCE_S)
    threads.append(threading.Thread(target=partial(store.backend.write, store.id, second)))
    threads[1].start()
    assert rehearsed.wait(PATIENCE_S)
    assert (store.get(A).data, store.revision()) == (b"0", 1)
    go.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert seen == [b"0", b"first"]
    assert (store.get(A).data, store.revision()) == (b"first, second", 3)
    assert len(store.versions()) == 4
