"""Several commands in one commit: the files agree with the final state, however often a path changes."""

from __future__ import annotations

import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import retentive
from retentive import MemoryStore
from retentive.storage.contract import Transaction
from retentive.storage.files.backend import DirectoryBackend
from support.commands import create, delete, insert, rename
from support.waiting import until

PATIENCE_S = 60.0
NAMES = st.sampled_from(["a", "b", "c", "d/e", "d/f"])
COMMANDS = st.one_of(
    st.builds(lambda name: delete(f"/memories/{name}"), NAMES),
    st.builds(lambda name: create(f"/memories/{name}", "new\n"), NAMES),
    st.builds(lambda name: insert(0, "more", f"/memories/{name}"), NAMES),
    st.builds(
        lambda old, new: rename(f"/memories/{old}", f"/memories/{new}"),
        NAMES | st.just("d"),
        NAMES | st.just("g"),
    ),
)
DELETE_B = delete("/memories/b")
C_TO_B = rename("/memories/c", "/memories/b")
EDIT_C = insert(0, "more", "/memories/c")
CREATE_X = create("/memories/x", "x")
DELETE_D = delete("/memories/d")
CREATE_D = create("/memories/d", "a file")
X_TO_Y = rename("/memories/x", "/memories/y")


def run_together(store: MemoryStore, commands: list[Any]) -> None:
    """Run the commands in this order in one commit. All of them wait while another write holds the lock.

    A command can also be a function of the transaction.
    """
    backend = store._core.backend
    assert isinstance(backend, DirectoryBackend)
    begun, go = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        begun.set()
        assert go.wait(PATIENCE_S)

    threads = [threading.Thread(target=lambda: backend.write(store.id, hold))]
    threads[0].start()
    assert begun.wait(PATIENCE_S)
    for number, command in enumerate(commands, start=1):
        job = partial(backend.write, store.id) if callable(command) else store.execute
        threads.append(threading.Thread(target=job, args=(command,)))
        threads[-1].start()
        until(partial(is_waiting, backend, number), pause_s=0.0002)
    go.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def is_waiting(backend: DirectoryBackend, jobs: int) -> bool:
    return len(backend._queue._waiting) >= jobs


def check(commands: list[Any], directory: Path) -> None:
    with retentive.open(directory / "memory") as opened:
        store = opened.store()
        for name in ("a", "b", "c", "d/e"):
            store.execute(create(f"/memories/{name}", f"{name}\n"))
        run_together(store, commands)
        root = directory / "memory" / "memories"
        files = {f"/memories/{path.relative_to(root)}": path.read_text() for path in root.rglob("*") if path.is_file()}
        assert files == {memory.path: store.read(memory.path) for memory in store.memories()}
        assert [version for version in store.versions() if str(version.actor) == "job:external"] == []


@example(commands=[DELETE_B, C_TO_B])
@example(commands=[EDIT_C, DELETE_B, C_TO_B])
@example(commands=[CREATE_X, X_TO_Y])
@example(commands=[EDIT_C] * 3)
@example(commands=[DELETE_D, CREATE_D])  # the file has the name of a directory, which must go before
@given(commands=st.lists(COMMANDS, min_size=2, max_size=6))
def test_files_match_any_batch(commands: list[Any]) -> None:
    """The files agree with the final state, so that the next command records no external edit."""
    with tempfile.TemporaryDirectory() as directory:
        check(commands, Path(directory))


def test_an_external_edit_between_two_commands_of_a_batch_is_kept(tmp_path: Path) -> None:
    """The second command does not compare the file, which is about to be written, so the old mark counts."""
    with retentive.open(tmp_path / "memory") as opened:
        store = opened.store()
        store.execute(create("/memories/d/e", "e\n"))
        edited = tmp_path / "memory" / "memories" / "d" / "e"
        before, after = insert(0, "more", "/memories/d/e"), rename("/memories/d", "/memories/g")
        run_together(store, [before, lambda _: edited.write_text("edited\n"), after])
        found = {memory.path: store.read(memory.path) for memory in store.memories()}
    assert found == {"/memories/d/e": "edited\n", "/memories/g/e": "more\ne\n"}
