"""`retentive admin audit` on the command line, and removal with the audit log on, which leaves a valid log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retentive import MemoryStore
from retentive.audit.chain import ENTRY, key_of
from support.command_line import here
from support.places import opened

from .logs import Log


@pytest.fixture
def at(tmp_path: Path) -> str:
    """A location with an audited store and some entries."""
    place = f"sqlite:///{tmp_path}/memory.db"
    for arguments in (
        ["create", "/memories/a.md", "one"],
        ["settings", "set", "audit=true"],
        ["view", "/memories/a.md"],
        ["view", "/memories/none"],
        ["view"],
        ["replace", "/memories/a.md", "one", "two"],
    ):
        here(place, "--actor", "user:ann", *arguments)
    return place


def test_the_log_is_shown(at: str) -> None:
    """The log is shown as lines, as JSON, and in its stored form."""
    shown = here(at, "admin", "audit", "show")
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert [row[1:5] for row in rows] == [
        ["user:ann", "settings audit=on", "ok", ""],
        ["user:ann", "view", "ok", "/memories/a.md"],
        ["user:ann", "view", "not_found", "/memories/none"],
        ["user:ann", "view", "ok", "/memories"],
        ["user:ann", "str_replace", "ok", "/memories/a.md"],
    ]
    assert rows[3][5] == "listing"
    assert rows[4][5].startswith("memver_")
    listed = json.loads(here(at, "admin", "audit", "show", "--json", "--since", "1h").stdout)
    assert [each["outcome"] for each in listed] == [row[3] for row in rows]
    assert {each["integration"] for each in listed} == {"cli"}
    assert listed[4]["changes"][0]["version_id"] == rows[4][5]
    lines = [json.loads(line) for line in here(at, "admin", "audit", "export").stdout.splitlines()]
    assert [each["operation"] for each in lines] == ["settings", "view", "view", "view", "str_replace"]
    assert here(at, "admin", "audit", "export", "--since", "0s").stdout == ""


def test_verify_distinguishes_valid_from_modified_logs(at: str, tmp_path: Path) -> None:
    """The exit status is 0, or 13 for a modified log. With `--expect`, the log must contain the recorded head."""
    verified = here(at, "admin", "audit", "verify")
    assert verified.exit_code == 0
    first, end = verified.stdout.splitlines()
    assert first == "Sound: 5 entries."
    noted = end.removeprefix("head\t")
    assert here(at, "admin", "audit", "verify", "--expect", noted).exit_code == 0
    assert here(at, "admin", "audit", "verify", "--expect", "nothing").exit_code == 2
    log = Log(tmp_path)
    sound = log.records()
    log.put({key: value for key, value in sound.items() if key != key_of(5)})
    cut = here(at, "admin", "audit", "verify", "--expect", noted)
    assert (cut.exit_code, cut.stdout.splitlines()[0]) == (13, "Not sound: entry 5: missing.")
    log.put(sound | {key_of(2): "{}"})
    found = here(at, "admin", "audit", "verify", "--json")
    assert found.exit_code == 13
    assert json.loads(found.stdout)["problem"] == {"what": "altered", "seq": 2}


SECRET, PLACE = "unmistakable-name", "unmistakable-directory"
PATH, OTHER = f"/memories/{PLACE}/{SECRET}.md", "/memories/kept.md"
TEXT = "unmistakable text"


def used(store: MemoryStore) -> None:
    """Run operations of many kinds that name the path or a directory above it."""
    store.change_settings({"audit": True})
    store.execute({"command": "create", "path": PATH, "file_text": TEXT})
    store.execute({"command": "create", "path": OTHER, "file_text": "kept"})
    store.execute({"command": "create", "path": PATH, "file_text": TEXT}, tool_use_id="t")
    store.execute({"command": "view", "path": PATH})
    store.execute({"command": "view", "path": f"/memories/{PLACE}"})
    store.execute({"command": "str_replace", "path": PATH, "old_str": "text", "new_str": TEXT}, tool_use_id="u")
    store.execute({"command": "rename", "old_path": PATH, "new_path": f"{PATH}.old"})
    store.execute({"command": "rename", "old_path": f"{PATH}.old", "new_path": PATH})
    store.search(TEXT, under=f"/memories/{PLACE}")
    store.history.log(PATH)
    store.history.blame(PATH)


def found_in(directory: Path) -> list[str]:
    """Return the files that contain part of the path or the text."""
    words = [word.encode() for word in (SECRET, PLACE, "unmistakable")]
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path.name for path in files if any(word in path.read_bytes() for word in words)]


@pytest.mark.parametrize("how", ["erase", "redact"])
@pytest.mark.parametrize("backend", ["sqlite", "directory"])
def test_a_removed_path_or_text_is_in_no_file(backend: str, how: str, tmp_path: Path) -> None:
    """The raw bytes of all files are searched. The entries stay, but their paths are withheld."""
    with opened(backend, tmp_path, actor="user:ann") as place:
        store = place.store()
        used(store)
        before = list(store.audit.entries())
        assert found_in(tmp_path)
        if how == "erase":
            removed = store.history.erase(PATH)
        else:
            store.execute({"command": "delete", "path": PATH})
            removed = store.history.redact(all_of=PATH)
        assert (removed.versions > 0, removed.pending) == (True, False)
        verified = store.audit.verify()
        assert (verified.problem, verified.unaudited) == (None, ())
        entries = list(store.audit.entries())
        withheld = [entry for entry in entries if entry.paths is None]
        assert len(withheld) == 10 + (how == "redact")  # one more for its deletion
        assert entries[-1].withheld == tuple(entry.seq for entry in withheld)
        assert [entry.hash for entry in entries[: len(before)]] == [entry.hash for entry in before]
        assert entries[2].paths == (OTHER,)
    assert found_in(tmp_path) == []


def test_a_withheld_path_is_shown_as_withheld(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    here(at, "create", PATH, TEXT)
    here(at, "settings", "set", "audit=true")
    here(at, "view", PATH)
    here(at, "erase", PATH, "--yes")
    rows = [line.split("\t")[2:5] for line in here(at, "admin", "audit", "show").stdout.splitlines()]
    assert rows == [["settings audit=on", "ok", ""], ["view", "ok", "withheld"], ["erase", "ok", ""]]
    assert [each["paths"] for each in json.loads(here(at, "admin", "audit", "show", "--json").stdout)] == [[], None, []]
    assert here(at, "admin", "audit", "verify").exit_code == 0


def test_the_paths_in_an_erased_directory_are_withheld(store: MemoryStore) -> None:
    """Also that of a memory that was moved out of it before, and stays."""
    store.change_settings({"audit": True})
    for name in ("stays", "goes"):
        store.create(f"/memories/{PLACE}/{name}", "text\n")
    store.rename(f"/memories/{PLACE}/stays", OTHER)
    store.history.erase(f"/memories/{PLACE}")
    assert PLACE not in str(store._core.read(lambda found: list(found.records(ENTRY))))
    assert store.read(OTHER) == "text\n"
    assert store.audit.verify().is_sound


def test_a_path_in_use_is_not_withheld(store: MemoryStore) -> None:
    """The path of a memory that still exists is not secret, even if old versions are redacted.

    The same is true of directories.
    """
    used(store)
    oldest = list(store.versions(PATH))[-1].id
    store.history.redact([oldest])
    assert [entry.paths for entry in store.audit.entries() if entry.paths is None] == []
    store.execute({"command": "create", "path": f"/memories/{PLACE}/other", "file_text": ""})
    store.history.erase(PATH)
    named = {path for entry in store.audit.entries() for path in entry.paths or ()}
    assert f"/memories/{PLACE}" in named
    assert SECRET not in str(store._core.read(lambda found: list(found.records(ENTRY))))
