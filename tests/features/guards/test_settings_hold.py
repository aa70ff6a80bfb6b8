"""Settings apply on every backend, to every process that has the store open, and through the SDK's tool."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError

import retentive
from retentive import MemoryStore, MemoryTool
from retentive.errors import ReadOnly
from retentive.values.settings import NAMES
from support.commands import create
from support.places import LASTING, SEALED, place_of

A, NOTE = "/memories/a", "/memories/notes/n"
VIEW = {"command": "view", "path": A}
KEY = "the key is AKIAQ3EGVSNB6RTKX2ZP"
HUNTER = "the password is hunter2"
READ_ONLY = f"Error: {A} is read-only"


def said(store: MemoryStore, command: object, actor: str | None = None) -> str:
    return store.execute(command, actor=actor).text


def test_quotas_refuse_and_warn_early(store: MemoryStore) -> None:
    """The limits are the size of a memory, the number of memories and their total size.

    The reply names the limit, the usage and what the model can do.
    """
    store.change_settings({"max_memories": 5, "max_store_bytes": 100, "max_memory_bytes": 50})
    for number in range(3):
        assert said(store, create(f"/memories/{number}", "x" * 10)).count("\n") == 0
    assert said(store, create("/memories/3", "x" * 10)).endswith(
        "\nNote: The memory store holds 4 of at most 5 memories."
    )
    assert said(store, create("/memories/4", "x" * 40)).split("\n")[1:] == [
        "Note: /memories/4 holds 40 of at most 50 bytes.",
        "Note: The memory store holds 5 of at most 5 memories.",
        "Note: The memory store holds 80 of at most 100 bytes.",
    ]
    assert said(store, create("/memories/5", "")) == (
        "Error: The memory store holds 5 memories and its limit is 5. Nothing was written. "
        "Delete memories that are no longer needed, or join small ones."
    )
    grow = {"command": "insert", "path": "/memories/0", "insert_line": 0, "insert_text": "y" * 30}
    assert said(store, grow) == (
        "Error: The memory store would hold 112 bytes, over its limit of 100 bytes (it holds 80 now). "
        "Nothing was written. Shorten or delete memories that are no longer needed."
    )
    assert store.execute(grow).code == "too_large"
    assert store.usage() == retentive.Usage(5, 80)


def test_a_limit_below_the_usage_allows_shrinking(store: MemoryStore) -> None:
    """Existing memories stay. Commands that shrink, move or delete memories are allowed."""
    for number in range(4):
        said(store, create(f"/memories/{number}", "x" * 20))
    store.change_settings({"max_memories": 2, "max_store_bytes": 10, "max_memory_bytes": 5})
    shrink = {"command": "str_replace", "path": "/memories/0", "old_str": "x" * 20, "new_str": "y" * 19}
    assert not store.execute(shrink).is_error
    assert store.execute(shrink | {"old_str": "y" * 19, "new_str": "z" * 19}).is_error
    assert not store.execute({"command": "rename", "old_path": "/memories/1", "new_path": "/memories/9"}).is_error
    assert not store.execute({"command": "delete", "path": "/memories/2"}).is_error
    assert store.usage() == retentive.Usage(3, 59)


def test_read_only_paths_refuse_changes(store: MemoryStore) -> None:
    """A directory above a read-only path cannot be deleted or renamed.

    No rename moves a memory into or out of the path.
    """
    for path in (A, "/memories/d/keep/x", "/memories/d/y", "/memories/e/z"):
        said(store, create(path, "text\n"))
    store.change_settings({"read_only_paths": ["/memories/d/keep", "/memories/*.md"]})
    refused = [
        (create("/memories/d/keep/new", "text\n"), "/memories/d/keep/new"),
        (create("/memories/n.md", "text\n"), "/memories/n.md"),
        ({"command": "delete", "path": "/memories/d"}, "/memories/d"),
        ({"command": "delete", "path": "/memories/d/keep"}, "/memories/d/keep"),
        ({"command": "delete", "path": "/memories/d/keep/nothing"}, "/memories/d/keep/nothing"),
        ({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/f"}, "/memories/d"),
        ({"command": "rename", "old_path": A, "new_path": "/memories/d/keep/a"}, "/memories/d/keep/a"),
        ({"command": "rename", "old_path": "/memories/e", "new_path": "/memories/d/keep/e"}, "/memories/d/keep/e"),
        ({"command": "rename", "old_path": "/memories/d/keep/x", "new_path": "/memories/x"}, "/memories/d/keep/x"),
    ]
    assert [said(store, command) for command, _ in refused] == [f"Error: {path} is read-only" for _, path in refused]
    assert store.clear().is_error
    for command in (
        {"command": "delete", "path": "/memories/d/y"},
        {"command": "rename", "old_path": "/memories/e", "new_path": "/memories/d/e"},
        create("/memories/d/new.md", "text\n"),
    ):
        assert not store.execute(command).is_error


def test_an_actor_changes_only_its_allowed_paths(store: MemoryStore) -> None:
    """An actor without a rule may change every path."""
    store.change_settings({"allow_write": {"session:*": ["/memories/notes/**"], "session:s1": [A]}})
    assert said(store, create(text="text\n"), "session:s2") == READ_ONLY
    assert not store.execute(create(text="text\n"), actor="session:s1").is_error
    assert not store.execute(create(NOTE, "text\n"), actor="session:s2").is_error
    assert said(store, {"command": "rename", "old_path": NOTE, "new_path": "/memories/b"}, "session:s2").endswith(
        "/memories/b is read-only"
    )
    assert not store.execute({"command": "delete", "path": "/memories/notes"}, actor="session:s2").is_error
    assert not store.execute(create("/memories/b", "text\n"), actor="user:ann").is_error
    assert not store.execute(create("/memories/c", "text\n")).is_error


OTHER_PROCESS = """
import sys, json, time, retentive
place, days = sys.argv[1], float(sys.argv[2])
clock = lambda: time.time() + days * 86400
with retentive.open(place, clock=clock) as opened:
    store = opened.store()
    for line in sys.stdin:
        command = json.loads(line)
        if command == "sweep":
            swept = store.sweep(dry_run=True, accept_clock=True)
            said = f"{[one.path for one in swept.expired]} expired, {swept.versions_pruned} pruned"
            said += f", {len(swept.proposals)} refused"
        elif command == "search":
            said = str([hit.path for hit in store.search("texten").hits])
        elif command == "audit":
            kept = store._core.read(lambda found: list(found.records("audit")))
            entries = [json.loads(value.splitlines()[0]) for key, value in kept if not key.startswith("~")]
            said = f"entries, of them views: {sum(one.get('operation') == 'view' for one in entries)}"
        else:
            said = store.execute(command, actor="session:other").text
        print(json.dumps(said), flush=True)
"""


@pytest.mark.parametrize("backend", [name for name in LASTING if name not in SEALED])
def test_a_setting_applies_to_a_process_that_has_the_store_open(backend: str, tmp_path: Path) -> None:
    """The setting applies at once and without a signal.

    The clock of the other process is 40 days ahead, so that its sweeps expire memories.
    """
    place = place_of(backend, tmp_path)
    with retentive.open(place) as mine:
        store = mine.store()
        said(store, create())
        said(store, {"command": "insert", "path": A, "insert_line": 2, "insert_text": "three"})
        said(store, create("/memories/old", "text\n"))
        store.change_settings({"review": ["session:w"]})
        store.execute(create("/memories/waits"), actor="session:w")
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER_PROCESS, place, "40"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

        def ask(command: object) -> str:
            assert other.stdin
            assert other.stdout
            other.stdin.write(json.dumps(command) + "\n")
            other.stdin.flush()
            return str(json.loads(other.stdout.readline()))

        cases: list[tuple[dict[str, Any], object, str]] = [
            ({"view_chars": 4}, VIEW, "[Truncated: lines 1 to 1 of 3 shown."),
            ({"list_rows": 1}, {"command": "view", "path": "/memories"}, "\t/memories/a"),
            ({"create_overwrites": True}, create(text="one\ntwo\nthree\n"), "File created"),
            ({"max_memory_bytes": 10}, create("/memories/b", "x" * 11), "over the limit of 10 bytes"),
            ({"max_memories": 1}, create("/memories/b", "text\n"), "its limit is 1"),
            ({"max_store_bytes": 20}, create("/memories/b", "x" * 11), "over its limit of 20 bytes"),
            ({"sensitive": "reject"}, create("/memories/b", KEY), "would hold sensitive values"),
            (
                {"sensitive": "reject", "sensitive_kinds": ["-aws_access_key_id"]},
                create("/memories/k", KEY),
                "File created",
            ),
            ({"sensitive_likely": "reject"}, create("/memories/l", HUNTER), "would hold sensitive"),
            (
                {"sensitive_likely": "reject", "sensitive_allow": ["password"]},
                create("/memories/l", HUNTER),
                "File created",
            ),
            ({"expire_after_days": 39}, "sweep", "['/memories/old'] expired"),
            ({"expire_after_days": 39, "expire_paths": {"/memories/old": 0}}, "sweep", "[] expired"),
            ({}, "sweep", "[] expired, 0 pruned"),
            ({"keep_versions": 1, "keep_versions_days": 30}, "sweep", "[] expired, 1 pruned"),
            ({"keep_versions": 1, "keep_versions_days": 41}, "sweep", "[] expired, 0 pruned"),
            ({"proposals_expire_days": 39}, "sweep", "1 refused"),
            ({"proposals_expire_days": 41}, "sweep", "0 refused"),
            ({}, "search", "[]"),
            ({"search_languages": ["german"]}, "search", "['/memories/old']"),
            ({"audit": True}, VIEW, "Here's the content"),
            ({}, "audit", "entries, of them views: 1"),
            ({"review": ["session:*"]}, create("/memories/p", "text\n"), "awaits review"),
            ({"review": ["session:*"], "max_proposals": 1}, create("/memories/q", "text\n"), "Error"),
            ({"review": ["session:*"], "max_proposals_each": 1}, create("/memories/q", "text\n"), "limit for each"),
            ({"trust": {"*": "unconfirmed"}}, VIEW, "Note: This memory is unconfirmed."),
            ({"trust": {"*": "unconfirmed"}, "hide_unconfirmed": ["session:*"]}, VIEW, "does not exist"),
            ({"quarantine": ["*"]}, VIEW, "does not exist"),
            ({"trust": {"*": "quarantined"}}, VIEW, "does not exist"),
            ({"read_only": True}, create("/memories/b", "text\n"), "is read-only"),
            ({"read_only_paths": ["/memories/b"]}, create("/memories/b", "text\n"), "is read-only"),
            ({"allow_write": {"*": [A]}}, create("/memories/b", "text\n"), "is read-only"),
        ]
        tried: set[str] = set()
        try:
            for settings, command, expected in cases:
                store.change_settings({**dict.fromkeys(("sensitive", "sensitive_likely", "review")), **settings})
                tried |= settings.keys()
                assert expected in ask(command), settings
                store.change_settings(dict.fromkeys(settings))
            assert ask(create("/memories/b", "text\n")).startswith("File created")
            assert tried == set(NAMES)
        finally:
            with other:
                other.communicate(timeout=60)


def test_an_argument_overrides_a_setting_for_its_process(tmp_path: Path) -> None:
    """Later changes of the stored setting do not change this. The argument also applies to the SDK's tool."""
    place = f"sqlite:///{tmp_path}/m.db"
    with retentive.open(place) as free, retentive.open(place, read_only=True, max_memories=1) as pinned:
        free.store().execute(create(text="text\n"))
        tool = MemoryTool(pinned.store())
        with pytest.raises(ToolError, match="is read-only"):
            tool.call(create("/memories/b", "text\n"))
        free.store().change_settings({"max_memories": 7, "read_only": False})
        assert (pinned.store().settings().max_memories, pinned.store().settings().read_only) == (1, True)
        assert free.store().settings().max_memories == 7
        limited = MemoryTool(place, max_memories=1)
        with pytest.raises(ToolError, match="its limit is 1"):
            limited.call(create("/memories/b", "text\n"))
        limited.close()


def test_settings_of_a_newer_retentive_are_a_permanent_error(store: MemoryStore) -> None:
    """The reply to the model says that a retry is useless."""
    store._core.backend.write(store.id, lambda tx: tx.set_metadata(settings='{"guard_of_tomorrow": true}'))
    for command in (VIEW, create(text="text\n"), {"command": "nothing"}):
        reply = store.execute(command)
        assert (reply.code, "trying again does not help" in reply.text) == ("unknown_schema", True)


def test_a_read_only_handle_cannot_change_settings(store: MemoryStore) -> None:
    """The store itself may change its settings, even if its settings make it read-only."""
    with pytest.raises(ReadOnly, match="opened read-only"):
        store.read_only().change_settings({"view_chars": 5})
    store.change_settings({"read_only": True})
    store.change_settings({"read_only": False, "view_chars": 7})
    assert store.settings().view_chars == 7
