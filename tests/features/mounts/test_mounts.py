"""Commands and reads over several memory stores: mount points, the store of a path, views, and errors at borders."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import retentive
from retentive import InvalidInput, MemoryStore, Mounts, Reply, Retentive
from support.places import KEYS

TEAM, DEEP, SHARED = "/memories/team", "/memories/team/deep", "/memories/shared/x"
HEADER = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:"


@dataclass
class Tree:
    """Mounts with the stores by mount point, and all replies so far."""

    mounts: Mounts
    stores: Mapping[str, MemoryStore]
    replies: list[Reply] = field(default_factory=list)

    def run(self, command: str, *values: object, **fields: object) -> str:
        """Run a command and return the text of the reply. Fields are given by name or in the order of the protocol."""
        given = {"command": command, **dict(zip(_FIELDS[command], values, strict=False)), **fields}
        reply = self.mounts.execute(given)
        self.replies.append(reply)
        return reply.text

    @property
    def code(self) -> str | None:
        """Return the code of the last reply, after checking that exactly the error replies have a code."""
        assert self.replies[-1].is_error == (self.replies[-1].code is not None)
        return self.replies[-1].code

    def view(self, path: str) -> list[str]:
        """Return the rows of the view of a directory. The header is checked."""
        header, *rows = self.run("view", path).split("\n")
        assert header == HEADER.format(path.rstrip("/"))
        return rows

    def texts(self, point: str) -> dict[str, str]:
        """Return the texts of a store, by the paths in the store."""
        store = self.stores[point]
        return {memory.path: store.read(memory.path) for memory in store.memories()}


_FIELDS = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


@contextmanager
def tree(*points: str, read_only: tuple[str, ...] = (), **options: object) -> Iterator[Tree]:
    """Create a tree with a store at `/memories` and at each of the points. All stores are in one location in memory."""
    with retentive.open("sqlite://", **options) as opened:  # type: ignore[arg-type]
        yield tree_in(opened, *points, read_only=read_only)


def tree_in(opened: Retentive, *points: str, read_only: tuple[str, ...] = ()) -> Tree:
    stores = {point: opened.store(point) for point in ("/memories", *points)}
    given = {point: store.read_only() if point in read_only else store for point, store in stores.items()}
    return Tree(Mounts(given), stores)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ((), "must be mounted at /memories"),
        (("/memories/team",), "must be mounted at /memories"),
        (("/memories", "/memories/"), "have the mount point /memories"),
        (("/memories", "/memories/a", "/memories//a"), "have the mount point /memories/a"),
        (("/memories", "/memories/é", "/memories/e\u0301"), "have the mount point /memories/é"),
        (("/memories", "team"), "invalid mount point: Error: Path must start with /memories, got: team"),
        (("/memories", "/memories/.git"), "Invalid path /memories/.git: .git is reserved"),
        (("/memories", "/memories/../x"), "Path /memories/../x would escape /memories directory"),
    ],
)
def test_an_invalid_mount_is_refused(points: tuple[str, ...], said: str) -> None:
    with retentive.open("sqlite://") as opened, pytest.raises(InvalidInput) as caught:
        Mounts({point: opened.store() for point in points})
    assert said in str(caught.value)


def test_a_rename_respects_the_depth_limit_of_the_tree() -> None:
    """The limit is 20 names. A target of 20 names in its store has 21 in the tree, because the mount point adds one."""
    with tree(TEAM) as at:
        at.run("create", "/memories/team/a/b/c", "x")
        deep = "/memories/team/" + "/".join("x" * 17)
        assert at.run("rename", "/memories/team/a", deep + "/y") == (
            f"Error: Invalid path {deep}/y: the new path of /memories/team/a/b/c is more than 20 levels deep"
        )
        assert at.code == "invalid_path"
        assert at.run("rename", "/memories/team/a", deep) == f"Successfully renamed /memories/team/a to {deep}"


def test_an_actor_under_review_sees_its_changes_in_the_whole_tree() -> None:
    """The actor sees its changes in listings and creates over several stores. Other actors see the present state."""
    with retentive.open("sqlite://") as place:
        mine, team = place.store("mine"), place.store("team")
        team.change_settings({"review": ["session:*"]})
        tree = Mounts({"/memories": mine, "/memories/team": team})
        created = {"command": "create", "path": "/memories/team/a", "file_text": "four"}
        assert "awaits review" in tree.execute(created, actor="session:s").text
        listing = {"command": "view", "path": "/memories"}
        assert "4B\t/memories/team/a" in tree.execute(listing, actor="session:s").text
        assert "/memories/team/a" not in tree.execute(listing, actor="user:ann").text


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/memories/team", TEAM),
        ("/memories/team/", TEAM),
        ("/memories/shared", SHARED),
        ("/memories/shared/x", SHARED),
    ],
)
def test_a_mount_point_and_its_parents_cannot_be_deleted_or_renamed(path: str, point: str) -> None:
    with tree(TEAM, SHARED) as at:
        at.run("create", f"{path.rstrip('/')}/f", "x")
        assert at.run("delete", path) == (
            f"Error: {path} cannot be deleted: a memory store is mounted at {point}. Delete the memories in it instead."
        )
        assert at.code == "root_protected"
        for new in ("/memories/new", "/memories/team/new", f"{point}/new", "/memories/team"):
            assert at.run("rename", path, new) == (
                f"Error: {path} cannot be renamed: a memory store is mounted at {point}. "
                "Rename the memories in it instead."
            )
            assert at.code == "root_protected"
        assert at.mounts.read(f"{path.rstrip('/')}/f") == "x"


def test_clear_is_refused_if_one_store_is_read_only_and_deletes_nothing() -> None:
    with tree(TEAM, SHARED, read_only=(TEAM,)) as at:
        at.run("create", "/memories/f", "x")
        reply = at.mounts.clear()
        assert (reply.text, reply.is_error, reply.code) == (f"Error: {TEAM} is read-only", True, "read_only")
        assert at.texts("/memories") == {"/memories/f": "x"}


def test_a_storage_error_names_the_path_of_the_tree() -> None:
    with tree() as alone, retentive.open("sqlite://") as closing:
        mounts = Mounts({"/memories": alone.stores["/memories"], TEAM: closing.store()})
        at = Tree(mounts, {})
        closing.close()
        unavailable = "Error: The memory store was closed; trying again does not help."
        assert at.run("view", "/memories/team/f") == unavailable
        assert at.run("view", "/memories") == unavailable
        assert at.run("delete", "/memories") == unavailable
        assert at.run("create", "/memories/team", "") == unavailable
        assert at.run("create", "/memories/f", "x") == "File created successfully at: /memories/f"
        assert at.run("rename", "/memories/f", "/memories/team/f") == unavailable
        assert mounts.clear().text == unavailable
        assert at.run("view", "/memories/f").endswith("x")


def test_different_backends_make_one_tree(tmp_path: Path) -> None:
    """The directory backend knows only its own paths. The tree replaces them in the replies."""
    with (
        retentive.open(tmp_path / "plain") as plain,
        retentive.open(f"sqlite:///{tmp_path}/sealed.db", keys=KEYS) as sealed,
        retentive.open(tmp_path / "locked", keys=KEYS) as locked,
    ):
        mounts = Mounts({"/memories": sealed.store(), "/memories/files": plain.store(), "/memories/l": locked.store()})
        at = Tree(mounts, {})
        for path in ("/memories/a", "/memories/files/d/b", "/memories/l/c"):
            assert at.run("create", path, "text") == f"File created successfully at: {path}"
        assert (tmp_path / "plain" / "memories" / "d" / "b").read_text() == "text"
        assert at.view("/memories") == [
            "12B\t/memories",
            "4B\t/memories/a",
            "4B\t/memories/files/",
            "4B\t/memories/files/d/",
            "4B\t/memories/l/",
            "4B\t/memories/l/c",
        ]
        (tmp_path / "plain" / "memories" / "link").symlink_to("/etc")
        (tmp_path / "plain" / "memories" / "by hand").write_text("new")
        taken = "Error: The path {} is taken by something that is not a memory"
        assert at.run("create", "/memories/files//link", "") == taken.format("/memories/files//link")
        (tmp_path / "plain" / "memories" / "e").mkdir()
        (tmp_path / "plain" / "memories" / "e" / "b").write_bytes(b"\xff")
        assert at.run("rename", "/memories/files/d", "/memories/files//e") == taken.format("/memories/files/e/b")
        assert at.view("/memories/files")[1] == "3B\t/memories/files/by hand"
        assert at.view("/memories")[0] == "15B\t/memories"
        assert at.run("rename", "/memories/a", "/memories/l/a").startswith("Error: /memories/a cannot be renamed to")


def test_actors_are_recorded_and_stores_keep_their_own() -> None:
    with retentive.open("sqlite://", actor="user:ann") as ann, retentive.open("sqlite://", actor="user:bob") as bob:
        mine, team = ann.store(), bob.store()
        mounts = Mounts({"/memories": mine, TEAM: team})
        for number, actor in itertools.product((0, 1), (None, "session:s")):
            path = (("/memories/f", "/memories/team/f"))[number] + str(actor)[-1]
            assert not mounts.execute({"command": "create", "path": path, "file_text": ""}, actor=actor).is_error
        assert [str(version.actor) for version in mine.versions()] == ["session:s", "user:ann"]
        assert [str(version.actor) for version in team.versions()] == ["session:s", "user:bob"]
        mounts.clear()
        assert {str(version.actor) for version in team.versions(limit=2)} == {"user:bob"}
