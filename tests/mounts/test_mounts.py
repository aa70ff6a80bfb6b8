"""Commands over several memory stores: which store a path belongs to, what is shown, and what a border refuses."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import commonplace
from backends.places import KEYS
from commonplace import FR, InvalidInput, Mounts, NotFound, Replies, Usage
from commonplace.errors import InvalidPath

from .trees import HEADER, Tree, tree, tree_in

TEAM, DEEP, SHARED = "/memories/team", "/memories/team/deep", "/memories/shared/x"


# -- what can be mounted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ((), "must be mounted at /memories"),
        (("/memories/team",), "must be mounted at /memories"),
        (("/memories", "/memories/"), "two memory stores are to be mounted at /memories"),
        (("/memories", "/memories/a", "/memories//a"), "two memory stores are to be mounted at /memories/a"),
        (("/memories", "/memories/é", "/memories/e\u0301"), "two memory stores are to be mounted at /memories/é"),
        (("/memories", "team"), "not a mount point: Error: Invalid path team: must be /memories or below it"),
        (("/memories", "/memories/../x"), "may not contain '..'"),
    ],
)
def test_what_cannot_be_mounted_is_refused(points: tuple[str, ...], said: str) -> None:
    with commonplace.open("sqlite://") as opened, pytest.raises(InvalidInput) as caught:
        Mounts({point: opened.store() for point in points})
    assert said in str(caught.value)


def test_only_memory_stores_can_be_mounted() -> None:
    with commonplace.open("sqlite://") as opened:
        wrong: Mapping[str, Any] = {"/memories": opened.store(), "/memories/a": opened}
        with pytest.raises(InvalidInput, match="must be a MemoryStore"):
            Mounts(wrong)


def test_a_store_alone_answers_as_it_does_without() -> None:
    with commonplace.open("sqlite://") as opened:
        alone, plain = Mounts({"/memories/": opened.store("a")}), opened.store("b")
        for command in (
            {"command": "view", "path": "/memories"},
            {"command": "create", "path": "/memories/d/a", "file_text": "x"},
            {"command": "create", "path": "/memories", "file_text": "x"},
            {"command": "rename", "old_path": "/memories", "new_path": "/memories/b"},
            {"command": "rename", "old_path": "/memories/d", "new_path": "/memories/b//"},
            {"command": "view", "path": "/memories/"},
            {"command": "delete", "path": "/memories"},
            {"command": "delete", "path": "/etc"},
        ):
            assert alone.execute(command) == plain.execute(command)
        assert alone.clear() == plain.clear()


# -- which store --------------------------------------------------------------------------------------------------


def test_the_longest_mount_point_wins_and_names_that_begin_alike_do_not_matter() -> None:
    with tree(TEAM, DEEP) as at:
        for path in ("/memories/a", "/memories/teams", "/memories/team/b", "/memories/team/deep/c", "/memories/team/d"):
            assert at.run("create", path, "x") == f"File created successfully at: {path}"
        assert list(at.texts("/memories")) == ["/memories/a", "/memories/teams"]
        assert list(at.texts(TEAM)) == ["/memories/b", "/memories/d"]
        assert list(at.texts(DEEP)) == ["/memories/c"]


def test_every_command_works_in_a_mounted_store_and_shows_the_path_as_written() -> None:
    with tree(TEAM) as at:
        path = "/memories//team/./n.md".replace("./", "")
        assert at.run("create", path, "one\n") == f"File created successfully at: {path}"
        assert at.run("view", path) == f"Here's the content of {path} with line numbers:\n     1\tone"
        assert at.run("insert", path, 1, "two") == f"The file {path} has been edited."
        assert at.run("str_replace", path, "two", "2").endswith("\n     1\tone\n     2\t2")
        new = "/memories/team/d//m.md"
        assert at.run("rename", path, new) == f"Successfully renamed {path} to {new}"
        assert at.texts(TEAM) == {"/memories/d/m.md": "one\n2\n"}
        assert at.run("delete", "/memories/team/d/") == "Successfully deleted /memories/team/d/"
        assert at.texts(TEAM) == {}


def test_errors_name_the_paths_of_the_tree() -> None:
    with tree(TEAM, max_memory_bytes=10) as at:
        at.run("create", "/memories/team/a", "12345678")
        assert at.replies[-1].text.endswith("\nNote: /memories/team/a holds 8 of at most 10 bytes.")
        assert at.run("view", "/memories/team//b") == (
            "The path /memories/team//b does not exist. Please provide a valid path."
        )
        assert at.run("create", "/memories/team/a", "") == "Error: File /memories/team/a already exists"
        for path in ("/memories/team/a/b", "/memories/team/a/b/c"):
            assert at.run("create", path, "") == "Error: The path /memories/team/a is a file, not a directory"
        assert at.run("rename", "/memories/team/a", "/memories/team/a/b") == (
            "Error: The path /memories/team/a is a file, not a directory"
        )
        assert at.run("str_replace", "/memories/team/a", "x") == (
            "No replacement was performed, old_str `x` did not appear verbatim in /memories/team/a."
        )
        assert at.run("create", "/memories/team/c", "x" * 11).startswith("Error: /memories/team/c would hold 11 bytes")
        assert at.run("rename", "/memories/team/x", "/memories/team/y") == (
            "Error: The path /memories/team/x does not exist"
        )
        assert at.run("create", "/memories/team/c/", "") == (
            "Error: Invalid path /memories/team/c/: may not end with '/', as it names a file"
        )


def test_a_rename_is_within_the_limits_of_the_tree() -> None:
    """19 names fit into the store and 20 into the tree, 20 would fit into the store alone."""
    with tree(TEAM) as at:
        at.run("create", "/memories/team/a/b/c", "x")
        deep = "/memories/team/" + "/".join("x" * 17)
        assert at.run("rename", "/memories/team/a", deep + "/y") == (
            f"Error: Invalid path {deep}/y: /memories/team/a/b/c could not move there: "
            "its path would be more than 20 levels deep"
        )
        assert at.code == "invalid_path"
        assert at.run("rename", "/memories/team/a", deep) == f"Successfully renamed /memories/team/a to {deep}"


def test_a_path_that_holds_a_sensitive_value_is_refused() -> None:
    secret = "AKIA" + "QYLPMN5HFIQR7XYA"  # put together here, so that no scanner takes this file for a leak
    with tree(TEAM) as at:
        refused = at.run("create", f"/memories/team/{secret}", "x")
        kind = "aws_access_key_id"
        assert refused == f"Error: Invalid path /memories/team/[REDACTED:{kind}]: holds a sensitive value: {kind}"
        at.run("create", "/memories/a", "x")
        assert at.run("rename", "/memories/a", f"/memories/team/{secret}") == refused


# -- what is shown ------------------------------------------------------------------------------------------------


def test_a_view_shows_memories_of_all_stores_and_empty_mounts() -> None:
    with tree(TEAM, SHARED, "/memories/é") as at:
        at.run("create", "/memories/team.md", "1234")
        at.run("create", "/memories/team/a/b/c", "12")
        at.run("create", "/memories/teal", "1")
        assert at.view("/memories") == [
            "7B\t/memories",
            "0B\t/memories/shared/",
            "0B\t/memories/shared/x/",
            "1B\t/memories/teal",
            "4B\t/memories/team.md",
            "2B\t/memories/team/",
            "2B\t/memories/team/a/",
            "0B\t/memories/é/",
        ]
        assert at.view("/memories/shared/") == ["0B\t/memories/shared", "0B\t/memories/shared/x/"]
        assert at.view("/memories/shared/x") == ["0B\t/memories/shared/x"]
        assert at.view("/memories/team") == [
            "2B\t/memories/team",
            "2B\t/memories/team/a/",
            "2B\t/memories/team/a/b/",
        ]


def test_sizes_of_directories_count_what_is_mounted_below_at_any_depth() -> None:
    with tree("/memories/a/b/c/d", "/memories/a/b/c/d/e/f") as at:
        at.run("create", "/memories/a/b/c/d/x", "x" * 1_000)
        at.run("create", "/memories/a/b/c/d/e/f/x", "x" * 536)
        assert at.view("/memories") == ["1.5K\t/memories", "1.5K\t/memories/a/", "1.5K\t/memories/a/b/"]
        assert at.view("/memories/a/b/c/d") == [
            "1.5K\t/memories/a/b/c/d",
            "536B\t/memories/a/b/c/d/e/",
            "536B\t/memories/a/b/c/d/e/f/",
            "1000B\t/memories/a/b/c/d/x",
        ]


def test_hidden_mounts_are_left_out_and_counted() -> None:
    with tree("/memories/.git", "/memories/d/node_modules", "/memories/d/.a/b") as at:
        for point in at.stores:
            at.run("create", f"{point}/f", "x")
        assert at.view("/memories") == ["4B\t/memories", "2B\t/memories/d/", "1B\t/memories/f"]
        assert at.view("/memories/.git") == ["1B\t/memories/.git", "1B\t/memories/.git/f"]
        assert at.view("/memories/d") == ["2B\t/memories/d"]


def test_rows_are_cut_by_the_settings_of_the_store_that_is_viewed() -> None:
    with commonplace.open("sqlite://") as opened, commonplace.open("sqlite://", list_rows=2) as short:
        mine, team = opened.store(), short.store()
        for mounts, cut in ((Mounts({"/memories": mine, TEAM: team}), 5), (Mounts({"/memories": team, TEAM: mine}), 2)):
            at = Tree(mounts, {})
            for name in "ab":
                at.run("create", f"/memories/{name}", "")
                at.run("create", f"/memories/team/{name}", "")
            rows = at.view("/memories")
            assert (
                rows[: cut + 1]
                == [
                    "0B\t/memories",
                    "0B\t/memories/a",
                    "0B\t/memories/b",
                    "0B\t/memories/team/",
                    "0B\t/memories/team/a",
                    "0B\t/memories/team/b",
                ][: cut + 1]
            )
            notice = "[Truncated: 2 of 5 entries shown. View a directory below to see the rest.]"
            assert rows[cut + 1 :] == ([notice] if cut == 2 else [])


def test_a_view_range_of_a_directory_is_ignored() -> None:
    with tree(TEAM) as at:
        assert at.run("view", "/memories", [5, 1]) == at.run("view", "/memories")


def test_a_mount_covers_what_its_place_holds() -> None:
    """Memories at or below the point, and one where a directory above it is, are out of the tree, and stay."""
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


def test_a_memory_where_a_directory_above_a_mount_stands_is_covered_and_in_the_way() -> None:
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


# -- borders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/memories/team", "/memories//team", "/memories/shared", "/memories/shared/x"])
def test_directories_of_mounts_are_directories_for_create_and_edits(path: str) -> None:
    with tree(TEAM, SHARED) as at:
        assert at.run("create", path, "x") == f"Error: File {path} already exists"
        assert at.code == "already_exists"
        assert (
            at.run("str_replace", path, "x") == f"Error: The path {path} does not exist. Please provide a valid path."
        )
        assert at.code == "not_found"
        assert at.run("insert", path, 0, "x") == f"Error: The path {path} does not exist"
        assert at.code == "not_found"


def test_create_overwrites_no_directory_of_mounts() -> None:
    with tree(SHARED, create_overwrites=True) as at:
        for path in ("/memories/shared", "/memories/shared/x"):
            assert at.run("create", path, "x") == f"Error: File {path} already exists"


def test_what_is_created_below_a_directory_above_a_mount_goes_to_the_outer_store() -> None:
    with tree(SHARED) as at:
        at.run("create", "/memories/shared/f", "x")
        assert at.texts("/memories") == {"/memories/shared/f": "x"}
        assert at.view("/memories/shared")[1:] == ["1B\t/memories/shared/f", "0B\t/memories/shared/x/"]
        assert at.run("delete", "/memories/shared/f") == "Successfully deleted /memories/shared/f"
        assert at.view("/memories/shared") == ["0B\t/memories/shared", "0B\t/memories/shared/x/"]


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/memories/team", TEAM),
        ("/memories/team/", TEAM),
        ("/memories/shared", SHARED),
        ("/memories/shared/x", SHARED),
    ],
)
def test_a_mount_point_and_what_is_above_can_neither_be_deleted_nor_renamed(path: str, point: str) -> None:
    with tree(TEAM, SHARED) as at:
        at.run("create", f"{path.rstrip('/')}/f", "x")
        assert at.run("delete", path) == (
            f"Error: {path} cannot be deleted: a memory store is mounted at {point}. Delete what lies in it instead."
        )
        assert at.code == "root_protected"
        for new in ("/memories/new", "/memories/team/new", f"{point}/new", "/memories/team"):
            assert at.run("rename", path, new) == (
                f"Error: {path} cannot be renamed: a memory store is mounted at {point}. "
                "Rename what lies in it instead."
            )
            assert at.code == "root_protected"
        assert at.mounts.text(f"{path.rstrip('/')}/f") == "x"


def test_the_root_is_refused_in_the_words_of_one_store() -> None:
    with tree(TEAM) as at:
        assert at.run("delete", "/memories/") == "Error: The /memories directory itself cannot be deleted"
        assert at.run("rename", "/memories", "/memories/team/a") == (
            "Error: The /memories directory itself cannot be renamed"
        )
        assert at.run("rename", "/memories", "/memories") == "Error: The /memories directory itself cannot be renamed"


def test_a_rename_across_mounts_is_refused_and_says_what_would_be_right() -> None:
    with tree(TEAM, DEEP) as at:
        at.run("create", "/memories/a/b", "x")
        at.run("create", "/memories/team/deep/c", "x")
        for old, new in (
            ("/memories/a", "/memories/team/a"),
            ("/memories//a/b", "/memories/team/b"),
            ("/memories/team/deep/c", "/memories/team/c"),
            ("/memories/team/deep/c", "/memories/c"),
            ("/memories/a/", "/memories/team/deep/a/"),
        ):
            assert at.run("rename", old, new) == (
                f"Error: {old} cannot be renamed to {new}: that crosses from one mounted memory store to another. "
                "Create it at the new path, then delete the old one."
            )
            assert at.code == "across_mounts"
        assert [memory.path for memory in at.mounts.memories()] == ["/memories/a/b", "/memories/team/deep/c"]


def test_what_one_store_would_refuse_of_a_rename_is_said_before_that_it_crosses() -> None:
    with tree(TEAM, SHARED) as at:
        at.run("create", "/memories/a/b", "x")
        at.run("create", "/memories/team/f", "x")
        for old, new, said in (
            ("/memories/x", "/memories/team/y", "Error: The path /memories/x does not exist"),
            ("/memories/team/y", "/memories/x", "Error: The path /memories/team/y does not exist"),
            ("/memories/a/b", "/memories/team/f", "Error: The destination /memories/team/f already exists"),
            ("/memories/team/f", "/memories/a", "Error: The destination /memories/a already exists"),
            ("/memories/team/f", "/memories/a/b/c", "Error: The path /memories/a/b is a file, not a directory"),
            ("/memories/a", "/memories/team/f/g/h", "Error: The path /memories/team/f is a file, not a directory"),
            (
                "/memories/a/b",
                "/memories/team/g/",
                "Error: Invalid path /memories/team/g/: may not end with '/', as it names a file",
            ),
        ):
            assert at.run("rename", old, new) == said


@pytest.mark.parametrize("new", ["/memories", "/memories/team", "/memories/shared", "/memories/shared/x"])
def test_a_destination_that_is_a_directory_of_mounts_already_exists(new: str) -> None:
    with tree(TEAM, SHARED) as at:
        at.run("create", "/memories/a/b", "x")
        at.run("create", "/memories/team/f", "x")
        for old in ("/memories/a", "/memories/a/b", "/memories/team/f"):
            assert at.run("rename", old, new) == f"Error: The destination {new} already exists"
            assert at.code == "already_exists"
        if new != "/memories":
            assert at.run("rename", "/memories/a", f"{new}/") == f"Error: The destination {new}/ already exists"
            assert at.run("rename", "/memories/a/b", f"{new}/") == (
                f"Error: Invalid path {new}/: may not end with '/', as it names a file"
            )


def test_a_directory_can_move_beside_a_mount_and_below_a_directory_above_one() -> None:
    with tree(SHARED) as at:
        at.run("create", "/memories/a/x/b", "x")
        assert at.run("rename", "/memories/a", "/memories/shared/y") == (
            "Successfully renamed /memories/a to /memories/shared/y"
        )
        assert [memory.path for memory in at.mounts.memories()] == ["/memories/shared/y/x/b"]
        assert at.run("rename", "/memories/shared/y/x", "/memories/shared/x") == (
            "Error: The destination /memories/shared/x already exists"
        )


# -- read-only ----------------------------------------------------------------------------------------------------


def test_a_read_only_mount_can_be_read_and_not_changed() -> None:
    with tree(TEAM, read_only=(TEAM,)) as at:
        at.stores[TEAM].execute({"command": "create", "path": "/memories/f", "file_text": "x"})
        assert at.run("view", "/memories/team/f").endswith("\n     1\tx")
        for command, values in (
            ("create", ("x",)),
            ("str_replace", ("x",)),
            ("insert", (0, "x")),
            ("delete", ()),
            ("rename", ("/memories/team/g",)),
            ("rename", ("/memories/g",)),
        ):
            for path in ("/memories/team/f", "/memories/team//none", "/memories/team"):
                assert at.run(command, path, *values) == f"Error: {path} is read-only"
                assert at.code == "read_only"
        at.run("create", "/memories/g", "x")
        assert at.run("rename", "/memories/g", "/memories/team/g") == "Error: /memories/team/g is read-only"
        assert at.run("rename", "/memories/none", "/memories/team/g") == "Error: /memories/team/g is read-only"
        assert at.texts(TEAM) == {"/memories/f": "x"}


@pytest.mark.parametrize("filled", [False, True])
def test_a_read_only_mount_below_makes_a_directory_read_only(*, filled: bool) -> None:
    with tree(TEAM, SHARED, read_only=(SHARED,)) as at:
        if filled:
            at.stores[SHARED].execute({"command": "create", "path": "/memories/f", "file_text": "x"})
        at.run("create", "/memories/shared/f", "x")
        for path in ("/memories/shared", "/memories/shared/", "/memories", "/memories/"):
            assert at.run("delete", path) == f"Error: {path} is read-only"
            assert at.run("rename", path, "/memories/new") == f"Error: {path} is read-only"
        assert at.run("delete", TEAM).startswith(f"Error: {TEAM} cannot be deleted")
        assert at.run("delete", "/memories/shared/f") == "Successfully deleted /memories/shared/f"


def test_the_old_path_is_read_only_before_the_new_one_and_both_before_what_is_there() -> None:
    with tree(TEAM, SHARED, read_only=("/memories", TEAM)) as at:
        assert at.run("rename", "/memories/a", "/memories/team/a") == "Error: /memories/a is read-only"
        assert at.run("rename", "/memories/shared/x/a", "/memories/team/a") == "Error: /memories/team/a is read-only"
        assert at.run("rename", SHARED, "/memories/team/a") == "Error: /memories/team/a is read-only"
        assert at.run("rename", SHARED, "/memories/shared/x/a").startswith(f"Error: {SHARED} cannot be renamed")
        assert at.run("create", "/memories/shared", "") == "Error: /memories/shared is read-only"
        assert at.run("insert", "/memories/shared", 0, "") == "Error: /memories/shared is read-only"


def test_what_is_covered_does_not_count_for_read_only() -> None:
    with commonplace.open("sqlite://", read_only_paths=["/memories/team/**"]) as opened:
        store, mounted = opened.store("a"), opened.store("b")
        at = Tree(Mounts({"/memories": store, TEAM: mounted}), {})
        assert at.run("create", "/memories/team/f", "x") == "File created successfully at: /memories/team/f"
        assert at.run("create", "/memories/team/team/f", "x") == "Error: /memories/team/team/f is read-only"


def test_read_only_is_pinned_for_what_was_given_out_alone() -> None:
    with commonplace.open("sqlite://", view_chars=3, replies="fr", actor="user:ann") as opened:
        store = opened.store()
        given = store.read_only()
        assert (store.settings().read_only, given.settings().read_only) == (False, True)
        assert (given.settings().view_chars, given.replies, given.actor, given.id) == (3, FR, store.actor, store.id)
        command = {"command": "create", "path": "/memories/a", "file_text": "x"}
        assert given.execute(command).text == "Error: /memories/a is read-only"
        assert not store.execute(command).is_error
        assert given.text("/memories/a") == "x"
        assert given.clear().text == "Error: /memories is read-only"


# -- clear --------------------------------------------------------------------------------------------------------


def test_clear_deletes_in_every_store_for_the_actor() -> None:
    with tree(TEAM, SHARED) as at:
        for point in at.stores:
            at.run("create", f"{point}/f", "x")
        assert at.mounts.clear(actor="user:ann").text == "All memory cleared"
        for store in at.stores.values():
            assert store.usage() == Usage(0, 0)
            newest = next(store.versions(limit=1))
            assert (newest.operation, str(newest.actor)) == ("deleted", "user:ann")


def test_clear_is_refused_if_one_store_is_read_only_and_deletes_nothing() -> None:
    with tree(TEAM, SHARED, read_only=(TEAM,)) as at:
        at.run("create", "/memories/f", "x")
        reply = at.mounts.clear()
        assert (reply.text, reply.is_error, reply.code) == (f"Error: {TEAM} is read-only", True, "read_only")
        assert at.texts("/memories") == {"/memories/f": "x"}


# -- odd trees ----------------------------------------------------------------------------------------------------


def test_the_same_store_can_be_mounted_twice() -> None:
    with commonplace.open("sqlite://") as opened:
        store = opened.store()
        at = Tree(Mounts({"/memories": store, "/memories/a": store, "/memories/b": store.read_only()}), {})
        at.run("create", "/memories/a/f", "x")
        assert at.run("view", "/memories/b/f").endswith("\n     1\tx")
        assert at.run("view", "/memories/f").endswith("\n     1\tx")
        assert at.view("/memories") == [
            "3B\t/memories",
            "1B\t/memories/a/",
            "1B\t/memories/a/f",
            "1B\t/memories/b/",
            "1B\t/memories/b/f",
            "1B\t/memories/f",
        ]
        assert at.run("rename", "/memories/a/f", "/memories/f") == "Error: The destination /memories/f already exists"
        assert at.run("rename", "/memories/a/f", "/memories/g").startswith(
            "Error: /memories/a/f cannot be renamed to /memories/g: that crosses"
        )
        assert at.run("create", "/memories/a/a/f", "y") == "File created successfully at: /memories/a/a/f"
        assert store.text("/memories/a/f") == "y"
        assert at.mounts.text("/memories/a/f") == "x"
        assert at.mounts.clear().text == "Error: /memories/b is read-only"
        assert Mounts({"/memories": store, "/memories/a": store}).clear().text == "All memory cleared"
        assert store.usage() == Usage(0, 0)


def test_replies_are_those_of_the_store_and_of_the_tree_those_of_the_root() -> None:
    own = Replies(missing="Error: nothing at {path}", file_header="Text of {path}:")
    with commonplace.open("sqlite://", replies="fr") as french, commonplace.open("sqlite://", replies=own) as owned:
        at = Tree(Mounts({"/memories": french.store(), TEAM: owned.store()}), {})
        at.run("create", "/memories/team/f", "x")
        assert at.run("view", "/memories/team/f") == "Text of /memories/team/f:\n     1\tx"
        assert at.run("delete", "/memories/team/g") == "Error: nothing at /memories/team/g"
        assert at.run("delete", "/memories/g") == "Error: The path /memories/g does not exist"
        assert at.run("view", "/memories").startswith("Voici les fichiers")
        assert at.run("view", "/memories/team").startswith("Here're the files")
        assert at.mounts.replies is FR


def test_storage_that_fails_is_said_with_the_path_of_the_tree() -> None:
    with tree() as alone, commonplace.open("sqlite://") as closing:
        mounts = Mounts({"/memories": alone.stores["/memories"], TEAM: closing.store()})
        at = Tree(mounts, {})
        closing.close()
        unavailable = "Error: The memory store is unavailable; try again later"
        assert at.run("view", "/memories/team/f") == unavailable
        assert at.run("view", "/memories") == unavailable
        assert at.run("delete", "/memories") == unavailable
        assert at.run("create", "/memories/team", "") == unavailable
        assert at.run("create", "/memories/f", "x") == "File created successfully at: /memories/f"
        assert at.run("rename", "/memories/f", "/memories/team/f") == unavailable
        assert mounts.clear().text == unavailable
        assert at.run("view", "/memories/f").endswith("x")


def test_a_directory_and_sqlite_sealed_and_bare_make_one_tree(tmp_path: Path) -> None:
    """A reply of the directory backend, which knows its own paths only, names that of the tree."""
    with (
        commonplace.open(tmp_path / "plain") as plain,
        commonplace.open(f"sqlite:///{tmp_path}/sealed.db", keys=KEYS, seal_paths=True) as sealed,
        commonplace.open(tmp_path / "locked", keys=KEYS) as locked,
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
        assert at.run("rename", "/memories/files/d", "/memories/files/link") == taken.format("/memories/files/link")
        assert at.run("rename", "/memories/a", "/memories/files//link") == taken.format("/memories/files//link")
        assert at.run("rename", "/memories/files//link", "/memories/b") == taken.format("/memories/files//link")
        assert at.run("create", "/memories/files/link/x", "") == taken.format("/memories/files/link/x")
        assert at.run("rename", "/memories/a", "/memories/files/link/x") == taken.format("/memories/files/link/x")
        (tmp_path / "plain" / "memories" / "e").mkdir()
        (tmp_path / "plain" / "memories" / "e" / "b").write_bytes(b"\xff")
        assert at.run("rename", "/memories/files/d", "/memories/files//e") == taken.format("/memories/files/e/b")
        assert at.view("/memories/files")[1] == "3B\t/memories/files/by hand"
        assert at.view("/memories")[0] == "15B\t/memories"
        assert at.run("rename", "/memories/a", "/memories/l/a").startswith("Error: /memories/a cannot be renamed to")


# -- programs -----------------------------------------------------------------------------------------------------


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
        assert (memory.path, text, mounts.text("/memories/team/b")) == ("/memories/team/b", "b", "b")
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
    with commonplace.open("sqlite://", actor="user:ann") as ann, commonplace.open("sqlite://", actor="user:bob") as bob:
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
    with commonplace.open("sqlite://") as opened:
        at = tree_in(opened, TEAM)
        at.stores[TEAM].change_settings({"allow_write": {"session:*": ["/memories/notes/**"]}})
        for path, allowed in (("/memories/team/notes/a", True), ("/memories/team/a", False), ("/memories/a", True)):
            reply = at.mounts.execute({"command": "create", "path": path, "file_text": ""}, actor="session:s")
            assert reply.is_error is not allowed
            assert allowed or reply.text == f"Error: {path} is read-only"


@pytest.mark.parametrize("given", [None, 7, {}, {"command": "view"}, {"command": "look", "path": "/memories"}, "x"])
def test_what_is_no_command_is_answered_as_by_one_store(given: object) -> None:
    with tree(TEAM) as at:
        assert at.mounts.execute(given) == at.stores["/memories"].execute(given)


def test_the_header_is_that_of_the_contract() -> None:
    with tree(TEAM) as at:
        assert at.run("view", "/memories") == f"{HEADER.format('/memories')}\n0B\t/memories\n0B\t/memories/team/"
