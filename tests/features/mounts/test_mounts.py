"""Commands over several memory stores: valid mount points, the store of a path, and views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import retentive
from retentive import InvalidInput, Mounts, NotFound

from .trees import tree

TEAM, DEEP, SHARED = "/memories/team", "/memories/team/deep", "/memories/shared/x"


# -- valid mount points --------------------------------------------------------------------------------------------


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


def test_only_memory_stores_can_be_mounted() -> None:
    with retentive.open("sqlite://") as opened:
        wrong: Mapping[str, Any] = {"/memories": opened.store(), "/memories/a": opened}
        with pytest.raises(InvalidInput, match="must be a MemoryStore"):
            Mounts(wrong)


# -- the store of a path -------------------------------------------------------------------------------------------


def test_errors_name_the_paths_of_the_tree() -> None:
    with tree(TEAM, max_memory_bytes=10) as at:
        at.run("create", "/memories/team/a", "12345678")
        assert at.replies[-1].text.endswith("\nNote: /memories/team/a holds 8 of at most 10 bytes.")
        assert at.run("view", "/memories/team//b") == (
            "The path /memories/team//b does not exist. Please provide a valid path."
        )
        assert at.run("create", "/memories/team/a/b/c", "") == (
            "Error: The path /memories/team/a is a file, not a directory"
        )
        assert at.run("create", "/memories/team/c", "x" * 11).startswith("Error: /memories/team/c would hold 11 bytes")


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


def test_a_path_that_holds_a_sensitive_value_is_refused() -> None:
    secret = "AKIA" + "QYLPMN5HFIQR7XYA"  # concatenated, so that no secret scanner reports this file
    with tree(TEAM) as at:
        refused = at.run("create", f"/memories/team/{secret}", "x")
        kind = "aws_access_key_id"
        assert refused == f"Error: Invalid path /memories/team/[REDACTED:{kind}]: holds a sensitive value: {kind}"
        at.run("create", "/memories/a", "x")
        for old in ("/memories/a", "/memories/none", "/memories/team", "/memories"):  # first, as in one store
            assert at.run("rename", old, f"/memories/team/{secret}") == refused


# -- views ---------------------------------------------------------------------------------------------------------


def test_hidden_mounts_are_left_out_and_counted() -> None:
    with tree("/memories/.github", "/memories/d/node_modules", "/memories/d/.a/b") as at:
        for point in at.stores:
            at.run("create", f"{point}/f", "x")
        assert at.view("/memories") == ["4B\t/memories", "2B\t/memories/d/", "1B\t/memories/f"]
        assert at.view("/memories/.github") == ["1B\t/memories/.github", "1B\t/memories/.github/f"]
        assert at.view("/memories/d") == ["2B\t/memories/d"]


def test_a_mount_covers_memories_at_its_point() -> None:
    """The tree hides memories at or below the mount point, and a memory at a parent path. They stay in their store."""
    with tree(SHARED) as at:
        below = at.stores["/memories"]
        for path in ("/memories/shared/x/old", "/memories/kept"):
            below.execute({"command": "create", "path": path, "file_text": "old"})
        assert at.view("/memories") == [
            "3B\t/memories",
            "3B\t/memories/kept",
            "0B\t/memories/shared/",
            "0B\t/memories/shared/x/",
        ]
        assert at.run("view", "/memories/shared/x/old").endswith("does not exist. Please provide a valid path.")
        assert [memory.path for memory in at.mounts.memories()] == ["/memories/kept"]
        assert at.mounts.clear().text == "All memory cleared"
        assert at.texts("/memories") == {"/memories/shared/x/old": "old"}


def test_a_memory_at_a_parent_of_a_mount_is_covered_and_blocks_its_path() -> None:
    with tree(SHARED) as at:
        at.stores["/memories"].execute({"command": "create", "path": "/memories/shared", "file_text": "old"})
        assert at.view("/memories") == ["0B\t/memories", "0B\t/memories/shared/", "0B\t/memories/shared/x/"]
        assert at.run("str_replace", "/memories/shared", "old") == (
            "Error: The path /memories/shared does not exist. Please provide a valid path."
        )
        assert (
            at.run("create", "/memories/shared/f", "") == "Error: The path /memories/shared is a file, not a directory"
        )
        with pytest.raises(NotFound):
            at.mounts.load("/memories/shared")
        assert at.run("create", "/memories/shared/x/f", "") == "File created successfully at: /memories/shared/x/f"


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
