"""What people do every day beside a synchronisation: nested directories, tidying, backups, editors, Windows."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import errors
from retentive.sync.session import SyncOptions, SyncReport, opened, watch

from .world import World, sync_once

MARK = "\ufeff"


def share(world: World, texts: dict[str, str]) -> None:
    """Files that both directories and the store have. Their times are certain: no later edit can have the same."""
    for name, text in texts.items():
        world.save(0, name, text)
    world.converge()
    time.sleep(0.03)
    for number in (0, 1):
        world.sync(number)


def became(report: SyncReport) -> dict[str, str]:
    return {each.path.removeprefix("/memories/"): each.became for each in report.outcomes}


def sync(world: World, number: int = 0, **options: bool) -> SyncReport:
    given = SyncOptions(machine=f"m{number}", states=str(world.states / str(number)), **options)  # type: ignore[arg-type]
    return sync_once(world.store, str(world.directories[number]), given)


# -- directories in one another ------------------------------------------------------------------------------------


def test_a_location_in_the_directory_is_refused(world: World, tmp_path: Path) -> None:
    """Also one of another program, such as the server through which the directory is synchronised."""
    world.save(0, "ada.md", "Ada\n")
    with retentive.open(world.directories[0] / "memory") as opened:
        opened.store().create("/memories/bob.md", "Bob\n")
        for other in (opened.store(), world.store):
            before = {each.path for each in other.memories()}
            with pytest.raises(errors.InvalidInput, match="'memory' in it is a location with memories"):
                sync_once(other, str(world.directories[0]), SyncOptions(states=str(tmp_path / "s")))
            assert {each.path for each in other.memories()} == before


def test_a_directory_of_the_store_itself_is_refused(tmp_path: Path) -> None:
    with retentive.open(tmp_path / "memory") as opened:
        opened.store().create("/memories/notes/bob.md", "Bob\n")
        (tmp_path / "link").symlink_to(tmp_path / "memory" / "memories" / "notes")
        for name in ("memory/memories", "memory/memories/notes", "link"):
            with pytest.raises(errors.InvalidInput, match="the directory belongs to a location"):
                sync_once(opened.store(), str(tmp_path / name), SyncOptions(states=str(tmp_path / "s")))
        assert not list((tmp_path / "memory" / "memories").rglob(".retentive-sync"))


@pytest.mark.parametrize("first", ["outer", "inner"])
def test_a_synchronised_directory_in_another_is_refused(tmp_path: Path, first: str) -> None:
    """Unless the outer one leaves it out."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inner)
    paths = [str(inner.parent), str(tmp_path / "link")]
    one, two = paths if first == "outer" else reversed(paths)
    options = SyncOptions(states=str(tmp_path / "s"))
    with retentive.open("sqlite://") as opened:
        sync_once(opened.store("one"), one, options)
        with pytest.raises(errors.InvalidInput, match=r"is synchronised (too|by itself).*move it, or leave it out"):
            sync_once(opened.store("two"), two, options)
        (inner.parent / ".retentive-ignore").write_text("inner\n")
        sync_once(opened.store("two"), two, options)


# -- deletions and texts that a person must confirm ----------------------------------------------------------------


@pytest.mark.parametrize("side", ["store", "directory"])
def test_deletions_are_counted_over_a_day(world: World, side: str) -> None:
    """In both directions: 6 + 3 of 20 go, but 6 + 3 + 5 of 20 are more than half."""
    share(world, {f"{number}.md": f"{number}\n" for number in range(20)})
    left = list(range(20))

    def remove(count: int) -> set[str]:
        for number in left[:count]:
            if side == "store":
                (world.directories[0] / f"{number}.md").unlink()
            else:
                world.store.delete(f"/memories/{number}.md")
        del left[:count]
        return set(became(sync(world)).values())

    assert [remove(count) for count in (6, 3, 5, 3)] == [{"deleted"}, {"deleted"}, {"held"}, {"held"}]
    assert len(world.memories() if side == "store" else world.files(0)) == 11
    (state,) = (world.states / "0").glob("*.json")
    kept = json.loads(state.read_text())
    kept["removed"] = {side: [at - 86_400 for at in kept["removed"][side]]}
    state.write_text(json.dumps(kept))
    assert remove(0) == {"held"}  # 8 of the 11 that were there a day ago
    assert set(became(sync(world, confirmed=True)).values()) == {"deleted"}
    assert len(world.memories()) == len(world.files(0)) == 3
    assert remove(1) == {"deleted"}  # confirmed deletions do not count


def test_a_cleared_store_empties_no_directory(world: World) -> None:
    """And the memories come back with their files, or by undo."""
    texts = {f"{number}.md": f"{number}\n" for number in range(8)}
    share(world, texts)
    world.store.clear()
    reports = [sync(world, number) for number in (0, 1)]
    assert all(set(became(report).values()) == {"held"} for report in reports)
    assert all("--undo-held" in each.why and "--confirm-deletes" in each.why for each in reports[0].outcomes)
    assert world.files(0) == world.files(1) == texts
    world.store.undo("HEAD")
    assert [sync(world, number).outcomes for number in (0, 1)] == [(), ()]
    world.store.clear()
    assert set(became(sync(world, restoring=True)).values()) == {"pushed"}
    assert world.memories() == texts


def test_a_directory_restored_from_a_backup_loses_nothing_of_others(world: World, tmp_path: Path) -> None:
    """Its old texts do not replace newer ones, and notes that it did not have yet are not deleted."""
    share(world, {"plan.md": "old\n", "mine.md": "mine\n"})
    shutil.copytree(world.directories[0], tmp_path / "backup")
    world.save(1, "plan.md", "new\n")
    world.save(1, "other.md", "other\n")
    world.converge()
    shutil.rmtree(world.directories[0])
    shutil.copytree(tmp_path / "backup", world.directories[0])
    world.save(0, "mine.md", "edited since\n")
    report = sync(world)
    assert "older copy" in next(each.why for each in report.outcomes if each.became == "warning")
    world.converge()
    assert world.files(0) == world.files(1)
    texts = {"plan.md": "new\n", "mine.md": "mine\n", "other.md": "other\n"}
    assert world.memories().items() >= texts.items()
    assert "edited since\n" in world.memories().values()  # as a conflict copy


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o640, 0o444])
def test_the_permissions_of_a_file_are_kept(world: World, mode: int) -> None:
    """When its text is replaced or merged, and by the copy of a conflict."""
    share(world, {"pull.md": "1\n", "merge.md": "1\n\n2\n\n3\n", "conflict.md": "1\n"})
    for name in ("pull.md", "merge.md", "conflict.md"):
        (world.directories[0] / name).chmod(mode)
    world.save(1, "pull.md", "2\n")
    world.save(1, "merge.md", "one\n\n2\n\n3\n")
    world.save(1, "conflict.md", "one\n")
    sync(world, 1)
    for name, text in (("merge.md", "1\n\n2\n\nthree\n"), ("conflict.md", "uno\n")):
        world.save(0, name, text)
        (world.directories[0] / name).chmod(mode)
    sync(world)
    files = [path for path in world.directories[0].iterdir() if path.suffix == ".md"]
    assert {path.stat().st_mode & 0o777 for path in files} == {mode}
    assert {path.read_text() for path in files} == {"2\n", "one\n\n2\n\nthree\n", "one\n", "uno\n"}


def test_files_of_editors_and_other_programs_stay_here(world: World) -> None:
    """Unless a command created a memory with such a name."""
    left = ["notes.md~", "#notes.md#", "4913", "notes.md.orig", "~$notes.md", ".notes.md.swp", ".Obsidian/x.md"]
    for name in (*left, "notes.md"):
        world.save(0, name, "x\n")
    world.store.create("/memories/kept.orig", "by a command\n")
    assert became(sync(world)) == {"notes.md": "pushed", "kept.orig": "written"}
    assert set(world.memories()) == {"notes.md", "kept.orig"}
    (world.directories[0] / "kept.orig").unlink()
    assert became(sync(world)) == {"kept.orig": "deleted"}


@pytest.mark.parametrize("side", ["store", "directory"])
def test_a_rename_in_case_only_is_a_rename(world: World, side: str) -> None:
    texts = {f"Notes/{number}.md": "same\n" if number < 4 else f"{number}\n" for number in range(8)}
    share(world, texts)
    ids = {each.path.casefold(): each.id for each in world.store.memories()}
    if side == "store":
        (world.directories[0] / "Notes").rename(world.directories[0] / "notes")
        world.save(0, "notes/7.md", "edited\n")
        texts["Notes/7.md"] = "edited\n"
    else:
        world.store.rename("/memories/Notes", "/memories/notes")
    found = [each.became for each in sync(world).outcomes]
    assert sorted(found) == ["pushed"] * (side == "store") + ["renamed"] * 8
    world.converge()
    assert world.files(1) == world.memories() == {name.lower(): text for name, text in texts.items()}
    assert {each.path.casefold(): each.id for each in world.store.memories()} == ids


def test_watching_finds_edits_by_hand_of_the_memories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the files of a location that is a directory, where no command writes a version."""
    monkeypatch.setattr("retentive.sync.session.RESCAN_S", 0.0)
    notes, memories = tmp_path / "notes", tmp_path / "memory" / "memories"
    notes.mkdir()

    def hints() -> Iterator[bool]:
        (memories / "new.md").write_text("by hand\n")
        yield False
        assert (notes / "new.md").read_text() == "by hand\n"
        (memories / "new.md").write_text("changed\n")
        yield False
        assert (notes / "new.md").read_text() == "changed\n"
        (memories / "new.md").unlink()
        yield False

    options = SyncOptions(states=str(tmp_path / "states"))
    with retentive.open(tmp_path / "memory") as place, opened(place.store(), str(notes), options) as session:
        watch(session, hints(), lambda _: None)
        assert not (notes / "new.md").exists()
        found = [(each.operation, str(each.actor)) for each in place.store().versions()]
    assert found == [(name, "job:external") for name in ("deleted", "modified", "created")]


# -- Windows -------------------------------------------------------------------------------------------------------


def windows(text: str, *, marked: bool = True) -> str:
    return MARK * marked + text.replace("\n", "\r\n")


@pytest.mark.parametrize("name", ["a.md", "MEMORY.md"])
@pytest.mark.parametrize("side", ["store", "directory", "both"])
def test_windows_line_endings_and_marks_are_no_difference(world: World, name: str, side: str) -> None:
    """One side converts the file and changes a line, the other changes another line, or the same one alike."""
    share(world, {name: "one\ntwo\nthree\nfour\nfive\n"})
    ours, theirs = "ONE\ntwo\nthree\nfour\nfive\n", "one\ntwo\nthree\nfour\nFIVE\n"
    path = world.directories[0] / name
    path.write_bytes((windows(ours) if side != "store" else ours).encode())
    world.settle(0, path)
    world.store.write(f"/memories/{name}", windows(theirs) if side != "directory" else theirs)
    assert became(sync(world)) == {name: "merged"}
    assert path.read_bytes().decode() == world.store.read(f"/memories/{name}")
    assert world.store.read(f"/memories/{name}") == windows("ONE\ntwo\nthree\nfour\nFIVE\n")


def test_the_same_lines_of_both_sides_are_not_doubled(world: World) -> None:
    """At the first synchronisation of two filled sides."""
    for name in ("a.md", "MEMORY.md"):
        path = world.directories[0] / name
        path.write_bytes(windows("- one\n- two\n").encode())
        world.settle(0, path)
        world.store.create(f"/memories/{name}", "- one\n- two\n")
    assert set(became(sync(world)).values()) == {"merged"}
    assert world.memories() == {"a.md": "- one\n- two\n", "MEMORY.md": "- one\n- two\n"}
    assert [path.read_bytes() for path in sorted(world.directories[0].glob("*.md"))] == [b"- one\n- two\n"] * 2


# -- dry runs ------------------------------------------------------------------------------------------------------


def scenes(world: World, scene: str) -> None:
    """Changes on both sides after a common state."""
    match scene:
        case "edits":
            world.save(0, "a.md", "here\n")
            world.save(0, "b.md", "HERE\n\nmiddle\n\nend\n")
            world.store.write("/memories/b.md", "start\n\nmiddle\n\nTHERE\n")
            world.save(0, "c.md", "here\n")
            world.store.write("/memories/c.md", "there\n")
            world.store.write("/memories/d.md", "there\n")
            world.save(0, "new.md", "new\n")
            world.save(0, "same.md", "same\n")
            world.store.create("/memories/same.md", "same\n")
            world.save(0, "MEMORY.md", "- line\n" * 300)
        case "renames and deletions":
            (world.directories[0] / "a.md").rename(world.directories[0] / "A.md")
            world.save(0, "A.md", "edited\n")
            world.store.rename("/memories/b.md", "/memories/moved.md")
            world.save(0, "b.md", "start\n\nmiddle\n\nEND\n")
            (world.directories[0] / "c.md").unlink()
            world.store.delete("/memories/d.md")
        case "held":
            for name in ("a.md", "b.md", "c.md", "d.md"):
                (world.directories[0] / name).unlink()


@pytest.mark.parametrize("scene", ["edits", "renames and deletions", "held"])
def test_a_dry_run_changes_nothing_and_says_the_steps_of_the_run(world: World, tmp_path: Path, scene: str) -> None:
    share(
        world, {"a.md": "a\n", "b.md": "start\n\nmiddle\n\nend\n", "c.md": "c\n", "d.md": "d\n", "MEMORY.md": "- x\n"}
    )
    scenes(world, scene)

    def everything() -> list[object]:
        files = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
        return [files, [each.id for each in world.store.versions()], world.store.review.pending()]

    before = everything()
    dry = sync(world, dry_run=True)
    assert everything() == before
    done = sync(world)
    assert dry.outcomes
    assert set(dry.outcomes) <= set(done.outcomes)
    assert dry.needs_attention == done.needs_attention


def test_a_dry_run_that_waits_for_a_file_says_only_its_last_plan(world: World) -> None:
    """A file that was just written is left alone in the first round, so its memory seems to be new here."""
    share(world, {"a.md": "a\n", "b.md": "b\n"})
    world.store.rename("/memories/a.md", "/memories/moved.md")
    os.utime(world.directories[0] / "a.md")
    assert became(sync(world, dry_run=True)) == {"moved.md": "renamed"}
