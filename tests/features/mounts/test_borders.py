"""Errors of commands that cross from one store to another, and errors of a read-only mount."""

from __future__ import annotations

import pytest

import retentive
from retentive import Mounts, Usage

from .trees import Tree, tree

TEAM, DEEP, SHARED = "/memories/team", "/memories/team/deep", "/memories/shared/x"


# -- commands across stores ----------------------------------------------------------------------------------------


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


def test_a_rename_across_mounts_is_refused_with_a_hint() -> None:
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
                f"Error: {old} cannot be renamed to {new}: the paths are in different mounted memory stores. "
                "Create it at the new path, then delete the old one."
            )
            assert at.code == "across_mounts"
        assert [memory.path for memory in at.mounts.memories()] == ["/memories/a/b", "/memories/team/deep/c"]


# -- read-only -----------------------------------------------------------------------------------------------------


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


def test_read_only_of_the_old_path_precedes_the_new_path_and_all_else() -> None:
    with tree(TEAM, SHARED, read_only=("/memories", TEAM)) as at:
        assert at.run("rename", "/memories/a", "/memories/team/a") == "Error: /memories/a is read-only"
        assert at.run("rename", "/memories/shared/x/a", "/memories/team/a") == "Error: /memories/team/a is read-only"
        assert at.run("rename", SHARED, "/memories/team/a") == "Error: /memories/team/a is read-only"
        assert at.run("rename", SHARED, "/memories/shared/x/a").startswith(f"Error: {SHARED} cannot be renamed")
        assert at.run("create", "/memories/shared", "") == "Error: /memories/shared is read-only"
        assert at.run("insert", "/memories/shared", 0, "") == "Error: /memories/shared is read-only"


def test_a_covered_path_does_not_count_for_read_only() -> None:
    with retentive.open("sqlite://", read_only_paths=["/memories/team/**"]) as opened:
        store, mounted = opened.store("a"), opened.store("b")
        at = Tree(Mounts({"/memories": store, TEAM: mounted}), {})
        assert at.run("create", "/memories/team/f", "x") == "File created successfully at: /memories/team/f"
        assert at.run("create", "/memories/team/team/f", "x") == "Error: /memories/team/team/f is read-only"


def test_a_read_only_handle_stays_read_only() -> None:
    with retentive.open("sqlite://", view_chars=3, actor="user:ann") as opened:
        store = opened.store()
        given = store.read_only()
        assert (store.settings().read_only, given.settings().read_only) == (False, True)
        assert (given.settings().view_chars, given.actor, given.id) == (3, store.actor, store.id)
        command = {"command": "create", "path": "/memories/a", "file_text": "x"}
        assert given.execute(command).text == "Error: /memories/a is read-only"
        assert not store.execute(command).is_error
        assert given.read("/memories/a") == "x"
        assert given.clear().text == "Error: /memories is read-only"


# -- clear ---------------------------------------------------------------------------------------------------------


def test_clear_deletes_in_every_store_for_the_actor() -> None:
    with tree(TEAM, SHARED) as at:
        for point in at.stores:
            at.run("create", f"{point}/f", "x")
        assert at.mounts.clear(actor="user:ann").text == "All memory cleared"
        for store in at.stores.values():
            assert store.usage() == Usage(0, 0)
            newest = store.versions(limit=1)[0]
            assert (newest.operation, str(newest.actor)) == ("deleted", "user:ann")


def test_clear_is_refused_if_one_store_is_read_only_and_deletes_nothing() -> None:
    with tree(TEAM, SHARED, read_only=(TEAM,)) as at:
        at.run("create", "/memories/f", "x")
        reply = at.mounts.clear()
        assert (reply.text, reply.is_error, reply.code) == (f"Error: {TEAM} is read-only", True, "read_only")
        assert at.texts("/memories") == {"/memories/f": "x"}
