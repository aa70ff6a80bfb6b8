"""Ways in which other programs lost or spoiled synchronised notes: each is a test here."""

from __future__ import annotations

import errno
import importlib
import os
import time
import unicodedata
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import retentive
from retentive import MemoryStore, errors
from retentive.sync.session import SyncOptions, SyncReport, hints, opened, watch

from .world import World

INDEX = "MEMORY.md"


def became(report: SyncReport, path: str) -> set[str]:
    return {each.became for each in report.outcomes if each.path == f"/memories/{path}"}


def share(world: World, **texts: str) -> None:
    """Files that both directories and the store have."""
    for name, text in texts.items():
        world.save(0, f"{name}.md", text)
    world.converge()


def test_a_write_that_drops_the_lines_of_others_drops_none(world: World) -> None:
    """A client that replaces a file which it never read removes no line that was pulled after its last look."""
    share(world, MEMORY="- one\n")
    world.save(1, INDEX, "- one\n- two\n")
    world.sync(1)
    world.save(0, INDEX, "- one\n- three\n")
    world.converge()
    assert set(world.files(0)[INDEX].splitlines()) == {"- one", "- two", "- three"}


@pytest.mark.parametrize("kind", ["unmounted", "replaced"])
def test_a_directory_without_its_marker_is_refused(world: World, kind: str) -> None:
    share(world, a="a\n", b="b\n")
    directory = world.directories[0]
    directory.rename(directory.with_name("away"))
    directory.mkdir()
    if kind == "replaced":
        world.save(0, "other.md", "other\n")
    with pytest.raises(errors.InvalidInput, match="check that the directory is mounted"):
        world.sync(0)
    assert len(world.memories()) == 2
    world.sync(0, confirmed=True)
    assert world.files(0).items() >= {"a.md": "a\n", "b.md": "b\n"}.items()


def test_two_filled_sides_are_united(world: World) -> None:
    world.save(0, "a.md", "here\n")
    world.save(0, "same.md", "same\n")
    world.store.create("/memories/a.md", "there\n")
    world.store.create("/memories/same.md", "same\n")
    world.store.create("/memories/b.md", "b\n")
    report = world.sync(0)
    assert became(report, "a.md") == {"conflict"}
    (copy,) = (name for name in world.files(0) if ".conflict-m0-" in name)
    assert world.files(0) == {"a.md": "there\n", "same.md": "same\n", "b.md": "b\n", copy: "here\n"}
    assert world.files(0) == world.memories()
    assert not any(each.became == "pushed" and each.path.endswith("same.md") for each in report.outcomes)


def test_a_store_restored_from_an_old_backup_gets_the_files_back(tmp_path: Path) -> None:
    """A memory without a deletion in the history was not deleted."""
    at = tmp_path / "memory.db"
    (tmp_path / "one").mkdir()
    with retentive.open(f"sqlite:///{at}") as opened:
        World(opened.store(), [tmp_path / "one"], tmp_path / "s", [0.0])
    old = at.read_bytes()
    with retentive.open(f"sqlite:///{at}") as opened:
        world = World(opened.store(), [tmp_path / "one"], tmp_path / "s", [0.0])
        world.save(0, "a.md", "a\n")
        world.sync(0)
    at.write_bytes(old)
    for rest in tmp_path.glob("memory.db-*"):
        rest.unlink()
    with retentive.open(f"sqlite:///{at}") as opened:
        world.store = opened.store()
        world.sync(0)
        assert world.files(0) == world.memories() == {"a.md": "a\n"}


def test_names_that_differ_in_case_are_left_alone(world: World) -> None:
    world.save(0, "Notes.md", "one\n")
    world.save(0, "notes.md", "two\n")
    world.store.create("/memories/Plans/a.md", "a\n")
    world.store.create("/memories/plans/b.md", "b\n")
    report = world.sync(0)
    assert [became(report, name) for name in ("Notes.md", "notes.md", "Plans/a.md", "plans/b.md")] == [{"skipped"}] * 4
    assert world.files(0) == {"Notes.md": "one\n", "notes.md": "two\n"}


def test_names_that_differ_in_unicode_form_only(world: World) -> None:
    """One is a memory; two of the same name are left alone."""
    composed, decomposed = "caf\u00e9.md", unicodedata.normalize("NFD", "caf\u00e9.md")
    world.save(0, decomposed, "one\n")
    world.sync(0)
    assert world.memories() == {composed: "one\n"}
    world.store.write(f"/memories/{composed}", "two\n")
    world.sync(0)
    assert world.files(0) == {decomposed: "two\n"}
    world.save(0, composed, "three\n")
    assert became(world.sync(0), composed) == {"skipped"}
    assert world.memories() == {composed: "two\n"}


def test_an_edit_wins_against_a_deletion(world: World) -> None:
    share(world, a="a\n", b="b\n")
    (world.directories[0] / "a.md").unlink()
    world.store.write("/memories/a.md", "edited\n")
    world.save(1, "b.md", "edited\n")
    world.store.delete("/memories/b.md")
    world.converge()
    assert world.memories() == {"a.md": "edited\n", "b.md": "edited\n"}


def test_a_conflict_neither_stops_nor_loses(world: World) -> None:
    """Both texts are kept; the same conflict after a crash gets no second copy."""
    share(world, a="one\n")
    world.save(0, "a.md", "here\n")
    world.save(0, "z.md", "z\n")
    world.store.write("/memories/a.md", "there\n")
    report = world.sync(0)
    assert report.needs_attention
    copies = [name for name in world.files(0) if "conflict" in name]
    assert [world.files(0)[name] for name in copies] == ["here\n"]
    assert world.memories()["z.md"] == "z\n"
    world.converge()
    assert [name for name in world.memories() if "conflict" in name] == copies


# -- more of what the design promises ----------------------------------------------------------------------------


def test_renames_of_both_sides_are_carried(world: World) -> None:
    share(world, a="a\n", b="b\n")
    ids = {each.path: each.id for each in world.store.memories()}
    (world.directories[0] / "dir").mkdir()
    (world.directories[0] / "a.md").rename(world.directories[0] / "dir" / "new.md")
    world.store.rename("/memories/b.md", "/memories/other.md")
    world.save(0, "b.md", "b edited\n")
    world.converge()
    assert world.memories() == {"dir/new.md": "a\n", "other.md": "b edited\n"}
    assert {each.id for each in world.store.memories()} == set(ids.values())
    assert not (world.directories[1] / "a.md").exists()


def test_sensitive_values_are_not_sent(world: World) -> None:
    world.save(0, "k.md", f"key sk-ant-api03-{'a1B2' * 23}AA\n")
    world.save(0, "ok.md", "fine\n")
    report = world.sync(0)
    assert became(report, "k.md") == {"refused"}
    assert world.memories() == {"ok.md": "fine\n"}
    assert "sk-ant" in world.files(0)["k.md"]
    assert not any("sk-ant" in each.why for each in report.outcomes)


def test_what_is_left_alone(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret\n")
    root = world.directories[0]
    (root / "link.md").symlink_to(outside / "secret.md")
    (root / "linked").symlink_to(outside)
    (root / "binary.md").write_bytes(b"\xff\xfe")
    (root / "nul.md").write_bytes(b"a\0b")
    (root / "large.md").write_text("x" * 2_000_000)
    (root / ".hidden.md").write_text("hidden\n")
    os.mkfifo(root / "pipe")
    (root / ".retentive-ignore").write_text("# not for others\ndrafts\n*.tmp\n")
    world.save(0, "drafts/a.md", "draft\n")
    world.save(0, "b.tmp", "b\n")
    world.save(0, "ok.md", "ok\n")
    world.store.create("/memories/drafts/there.md", "there\n")
    for name in ("binary.md", "large.md"):
        world.settle(0, root / name)
    report = world.sync(0)
    reasons = {each.path.removeprefix("/memories/"): each.why for each in report.outcomes if each.became == "skipped"}
    assert reasons.keys() == {"link.md", "linked", "binary.md", "nul.md", "large.md", "pipe"}
    assert world.memories() == {"ok.md": "ok\n", "drafts/there.md": "there\n"}
    assert not (root / "drafts" / "there.md").exists()


def test_what_cannot_be_seen_is_not_deleted(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that became a link or cannot be read, and a file that vanishes while its directory is listed."""
    for name in ("dir/a.md", "dir/b.md", "c.md", "d.md", "e.md", "f.md"):
        world.save(0, name, f"{name}\n")
    world.sync(0)
    directory = world.directories[0] / "dir"
    directory.rename(tmp_path / "elsewhere")
    directory.symlink_to(tmp_path / "elsewhere")
    world.sync(0)
    assert len(world.memories()) == 6
    directory.unlink()
    (tmp_path / "elsewhere").rename(directory)
    listed = os.scandir

    def failing(at: int) -> object:
        if os.readlink(f"/proc/self/fd/{at}").endswith("dir"):
            raise PermissionError
        return listed(at)

    monkeypatch.setattr("retentive.sync.session.MOST_ROUNDS", 2)
    monkeypatch.setattr("retentive.sync.folder.os.scandir", failing)
    report = world.sync(0)
    assert (became(report, "dir"), report.is_settled, len(world.memories())) == ({"waits"}, False, 6)
    monkeypatch.undo()
    seen = os.stat

    def vanished(name: str, **options: object) -> os.stat_result:
        if name == "c.md" and options.get("dir_fd") is not None:
            raise FileNotFoundError
        return seen(name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("retentive.sync.folder.os.stat", vanished)
    world.sync(0)
    assert len(world.memories()) == 5


def test_a_text_of_a_killed_process_is_kept(world: World) -> None:
    share(world, a="a\n")
    root = world.directories[0]
    (root / ".retentive-aside-1").write_text("unsaved\n")
    (root / ".retentive-aside-2").write_text("a\n")
    (root / ".retentive-new-3").write_text("half")
    world.sync(0)
    left = [path.name for path in root.iterdir() if path.name.startswith((".retentive-aside", ".retentive-new"))]
    assert left == []
    assert "unsaved\n" in world.files(0).values()


def test_front_matter_that_each_client_rewrites_is_no_conflict(world: World) -> None:
    def note(modified: str, session: str, body: str) -> str:
        return f"---\nmetadata:\n  modified: {modified}\n  originSessionId: {session}\n---\n{body}"

    share(world, n=note("2026-01-01", "s1", "one\n\ntwo\n\nthree\n"))
    world.save(0, "n.md", note("2026-01-03", "s3", "one\n\ntwo\n\nTHREE\n"))
    world.store.write("/memories/n.md", note("2026-01-02", "s2", "ONE\n\ntwo\n\nthree\n"))
    assert became(world.sync(0), "n.md") == {"merged"}
    assert world.memories()["n.md"] == note("2026-01-03", "s3", "ONE\n\ntwo\n\nTHREE\n")


def test_an_index_that_claude_code_cannot_load_is_reported(world: World) -> None:
    world.save(0, INDEX, "- a line of the index that is long enough\n" * 700)
    whys = [each.why for each in world.sync(0).outcomes if each.became == "warning"]
    assert whys == [
        "the file has 700 lines, but Claude Code loads the first 200",
        "the file has 29,400 bytes, but Claude Code loads the first 25,000",
    ]


def test_proposals_are_sent_once(world: World) -> None:
    world.store.change_settings({"review": ["user:*"]})
    world.save(0, "a.md", "a\n")
    store, world.store = world.store, world.store.acting_as("user:u")
    assert became(world.sync(0), "a.md") == {"proposed"}
    world.sync(0)
    (proposal,) = store.review.pending()
    store.review.refuse([proposal.id], actor="job:review")
    assert became(world.sync(0), "a.md") == {"proposed"}
    assert store.review.pending() == []
    world.save(0, "a.md", "b\n")
    world.sync(0)
    (proposal,) = store.review.pending()
    store.review.accept([proposal.id], actor="job:review")
    assert world.sync(0).outcomes == ()
    assert world.memories() == {"a.md": "b\n"}


# -- other programs within a step --------------------------------------------------------------------------------


def during(monkeypatch: pytest.MonkeyPatch, where: str, act: Callable[[], object], *, after: bool = False) -> None:
    """Act once when this function is called, before it or after it."""
    module, _, name = where.rpartition(".")
    acted: list[bool] = []
    target = importlib.import_module(module) if module.startswith("retentive.sync") else MemoryStore
    original = getattr(target, name)

    def call(*args: Any, **options: Any) -> Any:
        first = not acted
        acted.append(True)
        if first and not after:
            act()
        found = original(*args, **options)
        if first and after:
            act()
        return found

    monkeypatch.setattr(target, name, call)


def kept_texts(world: World) -> set[str]:
    return world.history() | set(world.files(0).values())


@pytest.mark.parametrize("saves", [1, 2])
def test_saves_around_the_exchange_are_kept(world: World, monkeypatch: pytest.MonkeyPatch, saves: int) -> None:
    share(world, a="a\n")
    world.store.write("/memories/a.md", "there\n")
    during(monkeypatch, "retentive.sync.folder.exchange", lambda: world.save(0, "a.md", "first\n"))
    if saves == 2:
        during(monkeypatch, "retentive.sync.folder.exchange", lambda: world.save(0, "a.md", "second\n"), after=True)
    world.sync(0)
    monkeypatch.undo()
    world.converge()
    assert kept_texts(world) >= {"there\n", "first\n", *(["second\n"] if saves == 2 else [])}


def test_a_new_file_that_changes_before_its_push_is_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.save(0, "a.md", "a\n")
    during(monkeypatch, "retentive.sync.session.plan", lambda: world.save(0, "a.md", "newer\n"), after=True)
    report = world.sync(0)
    assert world.memories() == {"a.md": "newer\n"}
    assert report.is_settled


def test_a_new_file_that_cannot_be_read_does_not_stop_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it can be read again, it is reported as refused no longer."""
    for name in ("a.md", "b.md"):
        world.save(0, name, f"{name}\n")
    folder = importlib.import_module("retentive.sync.folder").Folder
    read = folder.text

    def refuse(self: Any, file: Any) -> Any:
        if file.name == "a.md":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(self, file)

    monkeypatch.setattr(folder, "text", refuse)
    monkeypatch.setattr("retentive.sync.session.MOST_ROUNDS", 1)
    assert became(world.sync(0), "a.md") == {"refused"}
    assert world.memories() == {"b.md": "b.md\n"}
    monkeypatch.undo()
    report = world.sync(0)
    assert (became(report, "a.md"), report.needs_attention) == ({"pushed"}, False)


@pytest.mark.parametrize("is_new", [False, True], ids=["a merge", "a new file"])
def test_what_an_agent_writes_before_a_batch_is_not_overwritten(
    world: World, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    if not is_new:
        share(world, a="1\n\n2\n\n3\n")
        world.store.write("/memories/a.md", "1\n\n2\n\nthree\n")
    world.save(0, "a.md", "one\n\n2\n\n3\n")
    agent = world.store
    during(monkeypatch, "MemoryStore.batch", lambda: agent.write("/memories/a.md", "1\n\nAGENT\n\nthree\n"))
    world.sync(0)
    assert "AGENT" in world.memories()["a.md"]
    assert world.files(0) == world.memories()


def test_directories_with_names_of_ours_are_harmless(world: World) -> None:
    (world.directories[0] / ".retentive-ignore").mkdir()
    (world.directories[0] / ".retentive-aside-1").mkdir()
    world.save(0, "a.md", "a\n")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        world.sync(0)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert world.memories() == {"a.md": "a\n"}


def test_watching_finds_what_no_hint_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hints, the stamps of the files are compared when they are due, and an idle watch lists nothing."""
    monkeypatch.setattr("retentive.sync.session.RESCAN_S", 0.0)
    rounds: list[SyncReport] = []
    idle: list[int] = []

    def hints() -> Iterator[bool]:
        world.save(0, "a.md", "a\n")
        yield False
        world.store.create("/memories/b.md", "b\n")
        yield False
        (world.directories[0] / "a.md").unlink()
        for _ in range(4):
            yield False
            idle.append(len(rounds))

    options = SyncOptions(confirmed=True, machine="m", states=str(world.states))
    with opened(world.store, str(world.directories[0]), options) as session:
        watch(session, hints(), rounds.append)
    assert world.files(0) == world.memories() == {"b.md": "b\n"}
    assert idle[-1] == idle[-2]


def test_a_directory_that_the_system_refuses_to_watch_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the last inotify watch of a machine: the watch goes on without hints."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "OS file watch limit reached")

    monkeypatch.setattr("watchfiles.watch", refused)
    monkeypatch.setattr("retentive.sync.session.POLL_S", 0.0)
    assert list(islice(hints("."), 3)) == [False] * 3


def test_files_of_git_that_change_all_the_time_do_not_stop_the_watch(tmp_path: Path) -> None:
    """The package watchfiles leaves them out by default, and then says nothing at all."""
    (tmp_path / ".git").mkdir()
    ended, until = Event(), time.monotonic() + 10

    def commit() -> None:
        while not ended.wait(0.1) and time.monotonic() < until:
            (tmp_path / ".git" / "index").write_text("x")

    writer = Thread(target=commit)
    writer.start()
    seen = list(islice(hints(str(tmp_path)), 3))
    ended.set()
    writer.join()
    assert time.monotonic() < until
    assert seen[0]


def test_watching_finds_a_memory_written_during_the_last_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The round that finds nothing more to do lists the memories, and then another program writes one."""
    listed = MemoryStore.memories

    def memories(store: MemoryStore) -> Any:
        found = listed(store)
        if [each.path for each in found] == ["/memories/a.md"]:
            store.create("/memories/b.md", "b\n")
        return found

    world.save(0, "a.md", "a\n")
    options = SyncOptions(machine="m", states=str(world.states))
    monkeypatch.setattr(MemoryStore, "memories", memories)
    with opened(world.store, str(world.directories[0]), options) as session:
        watch(session, [False] * 3, lambda _: None)
    assert world.files(0) == {"a.md": "a\n", "b.md": "b\n"}
