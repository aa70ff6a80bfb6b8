"""A full disk refuses writes that need space, while reads and deletions work. With free space, writes work again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.command_line import Ended, process
from support.oracle import Command, Outcome, differs, following
from support.profiles import LONG, some
from support.targets import BACKENDS, FULL, Target, disk_faults, open_target, url_of

from .ext4 import disk, memory_disk, why_not

STORE = "default"
SIZE_KB = 4_096
TEXT = "a line of a memory that fills the disk\n" * 500  # 20 KB

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


class FollowedTarget:
    """A target with a model of its expected state. Every acknowledged command updates the model."""

    def __init__(self, target: Target, state: Outcome) -> None:
        self.target, self.state = target, state

    def run(self, command: Command) -> str:
        """Run a command. A refused command does not change the model."""
        answer = self.target.execute(STORE, command)
        if not answer.is_error:
            self.state = following(self.state, command)
        return answer.text

    def create(self, name: str, text: str = TEXT) -> str:
        return self.run({"command": "create", "path": f"/memories/{name}", "file_text": text})

    def delete(self, name: str) -> str:
        return self.run({"command": "delete", "path": f"/memories/{name}"})

    def check(self) -> None:
        """Check that the store contains exactly the acknowledged changes."""
        assert differs(self.target.state(STORE), self.state) == ""


@contextlib.contextmanager
def small_disk(kind: str, directory: Path) -> Iterator[Path]:
    if kind == "tmpfs":
        with memory_disk(directory, size_kb=SIZE_KB) as mount_point:
            yield mount_point
    else:
        block_bytes = 1_024 if kind == "ext4, small blocks" else 4_096
        with disk(directory, size_mb=SIZE_KB * 2 >> 10, block_bytes=block_bytes) as hardware:
            yield hardware.mount_point


def fill(path: Path) -> None:
    """Use up all free space."""
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
        for size in (1 << 16, 4_096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_store_that_fills_its_disk_keeps_working(backend: str, kind: str, tmp_path: Path) -> None:
    """Creates succeed until the disk is full. After that, views and deletes work in this process and in a new one."""
    with small_disk(kind, tmp_path) as place:
        ballast = place / "ballast"
        ballast.write_bytes(bytes(SIZE_KB * 1024 // 2))
        model = FollowedTarget(open_target(url_of(backend, place)), Outcome({}))
        count = fill_by_creating(model)
        assert model.target.execute(STORE, {"command": "view", "path": "/memories/d/0.md"}).is_error is False
        model.check()
        assert model.delete("d/0.md") == "Successfully deleted /memories/d/0.md"
        model.target.close()

        model.target = open_target(url_of(backend, place))
        model.check()
        assert model.delete("d/1.md") == "Successfully deleted /memories/d/1.md"
        assert model.delete("d") == "Successfully deleted /memories/d"
        model.check()
        ballast.unlink()
        assert model.create("again.md") == "File created successfully at: /memories/again.md"
        model.check()
        assert disk_faults(backend, place, {STORE: model.state.tree}) == []
        model.target.close()
        assert count > 10


def fill_by_creating(model: FollowedTarget) -> int:
    """Create memories until the disk is full, and return their number."""
    count = 0
    while (reply := model.create(f"d/{count}.md")).startswith("File created"):
        count += 1
    assert reply.startswith(FULL)
    assert model.create("small.md", "x").startswith((FULL, "File created"))
    return count


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_disk_filled_by_another_file_refuses_or_works(backend: str, kind: str, tmp_path: Path) -> None:
    """Another file takes all space while the store is open. Each command then reports a full disk or succeeds."""
    with small_disk(kind, tmp_path) as place:
        model = FollowedTarget(open_target(url_of(backend, place)), Outcome({}))
        for number in range(10):
            assert model.create(f"{number}.md", f"memory {number}\n").startswith("File created")
        fill(place / "ballast")
        for number in range(20):  # free space inside existing files can be enough for a few more creates
            reply = model.create(f"more/{number}.md")
            assert reply.startswith((FULL, "File created"))
        assert reply.startswith(FULL)
        fill(place / "ballast")
        edit: Command = {"command": "insert", "path": "/memories/0.md", "insert_line": 0, "insert_text": TEXT}
        assert model.run(edit).startswith(FULL)
        model.check()
        assert model.delete("3.md") == "Successfully deleted /memories/3.md"
        model.check()
        (place / "ballast").unlink()
        assert model.run(edit).startswith("The file /memories/0.md has been edited.")
        model.check()
        model.target.close()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tmpfs", *(["ext4", "ext4, small blocks"] if LONG else [])])
@pytest.mark.parametrize("backend", BACKENDS if LONG else ["directory"])
def test_a_process_that_starts_on_a_full_disk_can_view_and_delete(backend: str, kind: str, tmp_path: Path) -> None:
    """Each command of the command line, and each restart of a service, is a process that starts."""
    with small_disk(kind, tmp_path) as place:
        url = url_of(backend, place)
        model = FollowedTarget(open_target(url), Outcome({}))
        for number in range(20):
            assert model.create(f"{number}.md", f"memory {number}\n").startswith("File created")
        model.target.close()
        fill(place / "ballast")
        at = partial(process, tmp_path, "--at", url)
        for number in range(2):  # each process that ends frees some space, which something else takes
            assert at("cat", f"{number}.md") == Ended(f"memory {number}\n".encode(), "", 0)
            fill(place / "ballast")
            assert at("rm", f"{number}.md") == Ended(f"Successfully deleted /memories/{number}.md\n".encode(), "", 0)
            fill(place / "ballast")
        assert at("erase", "7.md", "--yes").status == 0
        refused = at("create", "new.md", TEXT)
        assert (refused.status, refused.err.splitlines()[0]) == (10, FULL)
        assert b"damaged" not in at("doctor").out
        (place / "ballast").unlink()
        assert at("create", "new.md", TEXT).status == 0
        assert at("doctor").status == 0


@pytest.mark.parametrize("at_once", some([True, False], 2))
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_memory_can_be_deleted_on_a_full_disk(backend: str, at_once: bool, tmp_path: Path) -> None:
    """The reserve is enough for as many deletions as there are memories, one by one or as a directory."""
    with small_disk("tmpfs", tmp_path) as place:
        model = FollowedTarget(open_target(url_of(backend, place)), Outcome({}))
        for number in range(400):
            assert model.create(f"d/{number}.md", "x" * 1_000).startswith("File created")
        fill(place / "ballast")
        for name in ["d"] if at_once else [f"d/{number}.md" for number in range(400)]:
            assert model.delete(name) == f"Successfully deleted /memories/{name}"
        model.check()
        model.target.close()
