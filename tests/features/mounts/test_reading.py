"""Unusual trees, and reads by programs through several stores."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import retentive
from retentive import Mounts, NotFound
from retentive.errors import InvalidPath
from support.places import KEYS

from .trees import Tree, tree, tree_in

TEAM, DEEP, SHARED = "/memories/team", "/memories/team/deep", "/memories/shared/x"


# -- unusual trees -------------------------------------------------------------------------------------------------


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
        assert at.run("rename", "/memories/files//link", "/memories/b") == taken.format("/memories/files//link")
        assert at.run("rename", "/memories/a", "/memories/files/link/x") == taken.format("/memories/files/link/x")
        (tmp_path / "plain" / "memories" / "e").mkdir()
        (tmp_path / "plain" / "memories" / "e" / "b").write_bytes(b"\xff")
        assert at.run("rename", "/memories/files/d", "/memories/files//e") == taken.format("/memories/files/e/b")
        assert at.view("/memories/files")[1] == "3B\t/memories/files/by hand"
        assert at.view("/memories")[0] == "15B\t/memories"
        assert at.run("rename", "/memories/a", "/memories/l/a").startswith("Error: /memories/a cannot be renamed to")


# -- reads by programs ---------------------------------------------------------------------------------------------


def test_programs_read_by_the_paths_of_the_tree() -> None:
    with tree(TEAM, DEEP) as at:
        paths = ["/memories/a", "/memories/team/b", "/memories/team/deep/c", "/memories/tean"]
        for path in reversed(paths):
            at.run("create", path, path[-1])
        mounts = at.mounts
        assert [memory.path for memory in mounts.memories()] == paths
        assert [memory.path for memory in mounts.memories("/memories/team/")] == paths[1:3]
        assert [memory.path for memory in mounts.memories("/memories/team/deep")] == paths[2:3]
        assert list(mounts.memories("/memories/none")) == []
        memory, text = mounts.load("/memories//team/b")
        assert (memory.path, text, mounts.read("/memories/team/b")) == ("/memories/team/b", "b", "b")
        for path in ("/memories/team", "/memories", "/memories/team/none", "/memories/team/b/c"):
            with pytest.raises(NotFound, match=f"there is no memory at {path}$"):
                mounts.load(path)
        with pytest.raises(InvalidPath):
            mounts.load("/etc/passwd")
        with pytest.raises(InvalidPath):
            mounts.store_of("/memories/..")


def test_history_is_reached_through_the_store_of_a_path() -> None:
    with tree(TEAM) as at:
        at.run("create", "/memories/team/d/f", "x")
        store, path = at.mounts.store_of("/memories/team//d/f")
        assert (store.id, path) == (at.stores[TEAM].id, "/memories/d/f")
        assert [version.operation for version in store.versions(path)] == ["created"]
        for outer, inner in ((TEAM, "/memories"), ("/memories/", "/memories"), ("/memories/x", "/memories/x")):
            assert at.mounts.store_of(outer)[1] == inner


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


def test_rules_by_actor_are_those_of_the_store() -> None:
    with retentive.open("sqlite://") as opened:
        at = tree_in(opened, TEAM)
        at.stores[TEAM].change_settings({"allow_write": {"session:*": ["/memories/notes/**"]}})
        for path, allowed in (("/memories/team/notes/a", True), ("/memories/team/a", False), ("/memories/a", True)):
            reply = at.mounts.execute({"command": "create", "path": path, "file_text": ""}, actor="session:s")
            assert reply.is_error is not allowed
            assert allowed or reply.text == f"Error: {path} is read-only"


@pytest.mark.parametrize("given", [None, 7, {}, {"command": "view"}, {"command": "look", "path": "/memories"}, "x"])
def test_an_invalid_command_gets_the_reply_of_one_store(given: object) -> None:
    with tree(TEAM) as at:
        assert at.mounts.execute(given) == at.stores["/memories"].execute(given)
