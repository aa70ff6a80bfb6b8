"""A directory with the memories of several stores: mine in both directions, the team's only read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore, Mounts, errors
from support.command_line import process
from support.http_api import serving
from support.places import place_of

from .world import sync_tree, watched

STYLE, RULES = "/memories/style.md", "/memories/deep/rules.md"


@dataclass
class Notes:
    """A directory, and the stores that it has: mine, the team's read-only, and one of both."""

    directory: Path
    mine: MemoryStore
    team: MemoryStore
    both: MemoryStore

    @property
    def tree(self) -> Mounts:
        team = self.team.read_only()
        return Mounts({"/memories": self.mine, "/memories/team": team, "/memories/both": self.both})

    def sync(self, tree: MemoryStore | Mounts | None = None, **options: bool) -> dict[str, tuple[str, str]]:
        """Synchronise, and return what became of each path, with its side."""
        return sync_tree(self.tree if tree is None else tree, self.directory, **options)

    def save(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    @property
    def files(self) -> dict[str, str]:
        found = (each for each in self.directory.rglob("[!.]*") if each.is_file())
        return {str(each.relative_to(self.directory)): each.read_text() for each in found}


@pytest.fixture(params=["sqlite", "postgresql", "server"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Notes]:
    """A directory that was synchronised once, on SQLite, on PostgreSQL, and through a server."""
    with ExitStack() as stack:
        kind = "sqlite" if request.param == "server" else request.param
        place = stack.enter_context(retentive.open(place_of(kind, tmp_path)))
        if request.param == "server":
            api = stack.enter_context(serving(place))
            place = stack.enter_context(retentive.open(api.url, api_key=api.key))
        (tmp_path / "notes").mkdir()
        made = Notes(tmp_path / "notes", place.store("mine"), place.store("team"), place.store("both"))
        made.team.create(STYLE, "Plain words.\n")
        made.team.create(RULES, "Tea at four.\n")
        made.save("a.md", "mine\n")
        made.save("both/b.md", "ours\n")
        assert made.sync() == {
            "a.md": ("pushed", "store"),
            "both/b.md": ("pushed", "store"),
            "team/deep/rules.md": ("written", "directory"),
            "team/style.md": ("written", "directory"),
        }
        yield made


def test_the_part_of_the_team_is_only_pulled(notes: Notes) -> None:
    assert (notes.mine.read("/memories/a.md"), notes.both.read("/memories/b.md")) == ("mine\n", "ours\n")
    notes.team.write(STYLE, "Plain words, always.\n")
    notes.team.rename(RULES, "/memories/rules.md")
    notes.both.write("/memories/b.md", "ours, now\n")
    assert notes.sync() == {
        "both/b.md": ("written", "directory"),
        "team/rules.md": ("renamed", "directory"),
        "team/style.md": ("written", "directory"),
    }
    assert notes.files == {
        "a.md": "mine\n",
        "both/b.md": "ours, now\n",
        "team/rules.md": "Tea at four.\n",
        "team/style.md": "Plain words, always.\n",
    }
    notes.team.delete(STYLE)
    assert notes.sync() == {"team/style.md": ("deleted", "directory")}
    assert notes.sync() == {}


def test_no_local_edit_of_a_read_only_part_is_lost(notes: Notes) -> None:
    """Edited, deleted, renamed and new files, the index of Claude Code, and an edit on both sides."""
    before = notes.team.versions()
    notes.save("team/style.md", "Long words.\n")
    notes.save("team/new.md", "a wish\n")
    (notes.directory / "team" / "deep" / "rules.md").rename(notes.directory / "team" / "mine.md")
    found = notes.sync()
    copy = next(name for name in found if ".conflict-m-" in name)
    held = ("held", "")
    assert found == {
        copy: held,
        "team/deep/rules.md": ("written", "directory"),
        "team/mine.md": held,
        "team/new.md": held,
        "team/style.md": ("conflict", "directory"),
    }
    assert notes.files == {
        "a.md": "mine\n",
        "both/b.md": "ours\n",
        copy: "Long words.\n",
        "team/deep/rules.md": "Tea at four.\n",
        "team/mine.md": "Tea at four.\n",
        "team/new.md": "a wish\n",
        "team/style.md": "Plain words.\n",
    }
    assert notes.sync() == {copy: held, "team/mine.md": held, "team/new.md": held}
    notes.team.write("/memories/new.md", "granted\n")
    notes.save("team/style.md", "Longer words.\n")
    notes.team.write(STYLE, "Short words.\n")
    assert {name for name, (became, _) in notes.sync().items() if became == "conflict"} == {
        "team/new.md", "team/style.md",
    }  # fmt: skip
    assert {"a wish\n", "Long words.\n", "Longer words.\n", "granted\n", "Short words.\n"} <= {*notes.files.values()}
    assert len(notes.team.versions()) == len(before) + 2


def test_all_files_of_a_read_only_part_come_back(notes: Notes) -> None:
    """However many were deleted: nothing is held, since nothing is deleted in the store."""
    for name in ("team/style.md", "team/deep/rules.md"):
        (notes.directory / name).unlink()
    (notes.directory / "team" / "deep").rmdir()
    (notes.directory / "team").rmdir()
    assert notes.sync() == {
        "team/deep/rules.md": ("written", "directory"),
        "team/style.md": ("written", "directory"),
    }


def test_a_file_moves_between_stores_as_a_deletion_and_a_new_memory(notes: Notes) -> None:
    (notes.directory / "both" / "b.md").rename(notes.directory / "b.md")
    assert notes.sync() == {"b.md": ("pushed", "store"), "both/b.md": ("deleted", "store")}
    assert (notes.mine.read("/memories/b.md"), notes.both.memories()) == ("ours\n", [])
    notes.save("b.md", "mine now\n")
    notes.mine.write("/memories/b.md", "ours\nand more\n")
    assert notes.sync()["b.md"][0] == "conflict"


def test_other_mounts_than_before_need_a_confirmation(notes: Notes) -> None:
    """Without it, the notes of the team would be pushed into my store. Edits stay, as new files."""
    notes.save("both/b.md", "edited\n")
    for tree in (notes.mine, Mounts({"/memories": notes.mine, "/memories/team": notes.both})):
        with pytest.raises(errors.InvalidInput, match="because the mounts differ"):
            notes.sync(tree)
    assert notes.sync(notes.mine, confirmed=True) == {
        "both/b.md": ("pushed", "store"),
        "team/deep/rules.md": ("deleted", "directory"),
        "team/style.md": ("deleted", "directory"),
    }
    assert [each.path for each in notes.mine.memories()] == ["/memories/a.md", "/memories/both/b.md"]
    assert notes.sync(notes.mine) == {}
    assert (len(notes.team.memories()), notes.both.read("/memories/b.md")) == (2, "ours\n")


def test_a_watched_directory_follows_all_stores(notes: Notes) -> None:
    def hints() -> Iterator[bool]:
        notes.team.write(STYLE, "Few words.\n")
        yield False
        notes.both.write("/memories/b.md", "ours, too\n")
        yield False

    assert watched(notes.tree, notes.directory, hints())[-2:] == [
        {"team/style.md": ("written", "directory")},
        {"both/b.md": ("written", "directory")},
    ]


@pytest.mark.long
def test_the_command_says_what_is_read_only(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("mine\n")
    with retentive.open(at) as place:
        place.store("team").create(STYLE, "Plain words.\n")
    arguments = ["--at", at, "--store", "me", "sync", str(tmp_path / "notes")]
    planned = process(tmp_path, *arguments, "--mount", "team=team:ro", "--dry-run")  # before the own store exists
    done = process(tmp_path, *arguments, "--mount", "team=team:ro")
    assert done.out.decode().splitlines() == [
        "pushed\t/memories/a.md\tstore\t",
        "written\t/memories/team/style.md\tdirectory\tread-only",
    ]
    assert planned.out == done.out
    status = json.loads(process(tmp_path, *arguments, "--status", "--json", RETENTIVE_MOUNTS="team=team:ro").out)
    assert (status["read_only"], status["in_step"]) == (["/memories/team"], 2)
    for wrong, said in (("team", "a mount must be POINT=KEY"), ("team=none:ro", "there is no memory store 'none'")):
        assert said in process(tmp_path, *arguments, "--mount", wrong).err
