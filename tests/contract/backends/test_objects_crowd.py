"""Object storage with many writers: processes take turns, and a waiting writer runs its work once in advance."""

from __future__ import annotations

import multiprocessing
import threading
from functools import partial
from pathlib import Path

import pytest

from retentive.storage.contract import Change, Transaction
from retentive.storage.objects.backend import open_objects
from retentive.storage.objects.manifest import WriterTurns, window_s
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
    assert window_s(commits(*writers), writers[0], 1.0) == 2 * window_s(commits(*writers[:5]), writers[0], 1.0)
    assert window_s(commits(*writers), writers[0], 2.0) == 2 * window_s(commits(*writers), writers[0], 1.0)
    alone = window_s(commits(writers[0]), writers[0], 1.0)
    assert window_s(commits(*writers[1:], *[writers[0]] * 32), writers[0], 1.0) == alone
    assert window_s([], writers[0], 1.0) == alone


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
