"""An anchor kept elsewhere detects edits that a rewritten audit log hides, and accepts recorded removals."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import retentive
from retentive import InvalidInput, MemoryStore, NotFound, Retentive
from retentive.audit.anchor import AnchorKey
from retentive.doctor import check
from retentive.errors import Damaged
from support.clock import Clock
from support.command_line import here
from support.places import EVERYWHERE, LASTING, opened

from .logs import database

A, B, C = "/memories/a", "/memories/b", "/memories/c"
TOKEN = "AKIAQ3EGVSNB6RTKX2ZP"


class Scene:
    """An audited store, with its anchors and their key in another directory."""

    def __init__(self, place: Retentive, clock: Clock, directory: Path) -> None:
        self.place, self.clock, self.directory = place, clock, directory
        self.store: MemoryStore = place.store()
        self.file, self.key = str(directory / "anchors"), str(directory / "key")
        AnchorKey.create(self.key)
        self.store.change_settings({"audit": True, "sensitive": "off", "keep_versions": 1})
        for path in (A, B, C):
            self.run("create", path=path, file_text=f"one {TOKEN}\n")
        self.run("str_replace", path=A, old_str="one", new_str="two")
        self.run("rename", old_path=C, new_path="/memories/d")

    def run(self, command: str, **fields: object) -> None:
        reply = self.store.execute({"command": command, **fields}, actor="session:s1")
        assert not reply.is_error, reply

    def anchor(self) -> int | None:
        """The number of newly anchored versions."""
        made = self.store.audit.anchor(self.file, self.key)
        return None if made is None else len(made.versions)

    def findings(self) -> list[str]:
        return [str(each) for each in self.store.audit.verify(anchor=self.file, key=self.key).findings]


@pytest.fixture(params=LASTING)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "place").mkdir()
    (tmp_path / "elsewhere").mkdir()
    clock = Clock()
    with opened(str(request.param), tmp_path / "place", clock=clock, sweep=False) as place:
        yield Scene(place, clock, tmp_path / "elsewhere")


def test_an_anchor_has_the_versions_since_the_last_one(scene: Scene) -> None:
    """Views change only the log. Without any change the file stays as it is."""
    assert scene.anchor() == 5
    assert scene.anchor() is None
    scene.run("view", path=A)
    assert scene.anchor() == 0
    scene.run("insert", path=A, insert_line=0, insert_text="more")
    assert scene.anchor() == 1
    assert scene.findings() == []
    assert Path(scene.file).read_text().count("\n") == 3
    assert TOKEN not in Path(scene.file).read_text()


REMOVALS: dict[str, Callable[[Scene], object]] = {
    "redact": lambda scene: scene.store.history.redact(all_of=A),
    "erase": lambda scene: scene.store.history.erase(B),
    "scan": lambda scene: scene.store.scan(redact=True, history=True),
    "sweep": lambda scene: scene.store.sweep(accept_clock=True),
    "delete": lambda scene: scene.run("delete", path=A),
    "undo": lambda scene: scene.store.history.undo_by("session:*"),
}


@pytest.mark.parametrize("removal", REMOVALS)
def test_recorded_removals_are_sound(removal: str, scene: Scene) -> None:
    """The store is sound before and after the next anchor."""
    scene.anchor()
    before = [(each.id, each.redacted_at) for each in scene.store.versions()]
    scene.clock.pass_days(400)
    REMOVALS[removal](scene)
    assert [(each.id, each.redacted_at) for each in scene.store.versions()] != before
    assert scene.findings() == []
    scene.anchor()
    assert scene.findings() == []


def edited(*statements: str) -> Callable[[Path], None]:
    def edit(directory: Path) -> None:
        with closing(sqlite3.connect(database(directory))) as connection, connection:
            for statement in statements:
                assert connection.execute(statement).rowcount >= 1, statement

    return edit


OLDEST = "(SELECT min(id) FROM versions)"
NEWEST = "(SELECT max(id) FROM versions)"
LATER = f"substr({NEWEST}, 1, 38) || 'z'"
COLUMNS = (
    "memory, operation, path, size_bytes, sha256, actor, created_at, revision, memories, total_bytes, seal,"
    " redacted_at, redacted_by"
)
AS_EXTERNAL = COLUMNS.replace("actor", "'job:external'")
EDITS: dict[str, tuple[Callable[[Path], None], str]] = {
    "text": (edited(f"UPDATE versions SET text = 'forged' WHERE id = {OLDEST}"), "altered"),
    "actor": (edited(f"UPDATE versions SET actor = 'user:ann' WHERE id = {NEWEST}"), "altered"),
    "time": (edited(f"UPDATE versions SET created_at = created_at + 1 WHERE id = {OLDEST}"), "altered"),
    "deleted": (edited(f"DELETE FROM versions WHERE id = {OLDEST}"), "missing"),
    "redacted": (edited(f"UPDATE versions SET redacted_at = 1 WHERE id = {OLDEST}"), "altered"),
    "inserted": (
        edited(
            f"INSERT INTO versions (store, id, {COLUMNS}, text_of, text)"
            f" SELECT store, substr(id, 1, 38) || 'z', {COLUMNS}, NULL, text FROM versions WHERE id = {OLDEST}"
        ),
        "unknown",
    ),
    "appended as an external edit": (
        edited(
            f"INSERT INTO versions (store, id, {COLUMNS}, text_of, text)"
            f" SELECT store, {LATER}, {AS_EXTERNAL}, NULL, text FROM versions WHERE id = {OLDEST}"
        ),
        "unaudited",
    ),
    "a present memory": (edited("UPDATE memories SET path = '/memories/z' WHERE path = '/memories/b'"), "unreadable"),
    "a present memory removed": (edited("DELETE FROM memories WHERE path = '/memories/b'"), "present differs"),
    "the whole log": (edited("DELETE FROM records WHERE kind LIKE 'audit%'"), "entry 1: missing"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_of_the_database_is_found(name: str, tmp_path: Path) -> None:
    """A new anchor, which would hide the edit, is refused."""
    edit, expected = EDITS[name]
    place_directory, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    place_directory.mkdir()
    elsewhere.mkdir()
    with opened("sqlite", place_directory) as place:
        scene = Scene(place, Clock(), elsewhere)
        scene.anchor()
        assert scene.findings() == []
        edit(place_directory)
        assert any(expected in each for each in scene.findings()), scene.findings()
        with pytest.raises(Damaged, match="no anchor was written"):
            scene.anchor()


def test_files_that_are_not_anchors_are_refused(scene: Scene) -> None:
    """This includes missing, malformed, shortened and altered files, other keys and other stores."""
    verify, file = scene.store.audit.verify, Path(scene.file)
    with pytest.raises(NotFound):
        verify(anchor=scene.file, key=scene.key)
    scene.anchor()
    scene.run("delete", path=A)
    scene.anchor()
    first, second = lines = file.read_text().splitlines(keepends=True)
    other = str(scene.directory / "other")
    AnchorKey.create(other)
    with pytest.raises(InvalidInput, match="a different key"):
        verify(anchor=scene.file, key=other)
    with pytest.raises(InvalidInput, match="can be read only with the key"):
        verify(anchor=scene.file)
    for key_file in (scene.file, __file__):
        with pytest.raises(InvalidInput, match="not an anchor key"):
            verify(anchor=scene.file, key=key_file)
    with pytest.raises(InvalidInput, match="exists"):
        AnchorKey.create(scene.key)
    with pytest.raises(InvalidInput, match="no anchor of this memory store"):
        scene.place.store("other").audit.verify(anchor=scene.file, key=scene.key)
    file.write_text(second)
    with pytest.raises(Damaged, match="a line is missing"):
        verify(anchor=scene.file, key=scene.key)
    file.write_text(first + second.replace('"time":"20', '"time":"21'))
    with pytest.raises(Damaged, match="line 2 of the anchor file was modified"):
        verify(anchor=scene.file, key=scene.key)
    for text in ("text\n", "{}\n", "[]\n", first + "\n"):
        file.write_text(text)
        with pytest.raises(InvalidInput, match="is not an anchor"):
            verify(anchor=scene.file, key=scene.key)
    file.write_text("".join(lines))
    assert scene.findings() == []
    scene.store.change_settings({"audit": False})
    with pytest.raises(InvalidInput, match="the audit log is off"):
        scene.anchor()


def test_the_commands(tmp_path: Path) -> None:
    """The commands create a key, add an anchor, and verify with it."""
    at, key, file = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "key"), str(tmp_path / "anchors")
    here(at, "create", A, "one")
    here(at, "settings", "set", "audit=true")
    assert here(at, "admin", "audit", "key", key).stdout.startswith("Created the key ")
    assert here(at, "admin", "audit", "key", key).exit_code == 2
    assert here(at, "admin", "audit", "anchor", file, "--key", key).stdout == "Anchored the head 1 and 1 version.\n"
    assert here(at, "admin", "audit", "anchor", file, "--key", key).stdout == "Nothing changed since the last anchor.\n"
    assert here(at, "admin", "audit", "verify", "--anchor", file).exit_code == 2
    assert here(at, "admin", "audit", "verify", "--anchor", file, "--key", key).stdout.startswith("Sound: 1 entry.")
    edited(f"UPDATE versions SET actor = 'user:eve' WHERE id = {NEWEST}")(tmp_path)
    ended = here(at, "admin", "audit", "verify", "--anchor", file, "--key", key)
    assert ended.exit_code == 13
    assert ended.stdout.startswith("Not sound: version memver_")
    with retentive.open(at, sweep=False) as place:
        (version,) = place.store().versions()
    assert f"altered\t{version.id}\n" in ended.stdout
    value = json.loads(here(at, "admin", "audit", "verify", "--anchor", file, "--key", key, "--json").stdout)
    assert value["differences"] == [{"what": "altered", "version_id": version.id}]
    assert here(at, "admin", "audit", "anchor", file, "--key", key).exit_code == 13


SETTINGS = {"audit": True, "review": ["session:*"], "read_only_paths": ["/memories/team/**"]}


def forge_settings(place: Retentive, store: MemoryStore, text: str | None) -> None:
    """Write the settings of a store without retentive's operations, as with SQL."""
    place.backend.write(store.id, lambda tx: tx.set_metadata(settings=text))


@pytest.mark.parametrize("backend", EVERYWHERE)
@pytest.mark.parametrize("forged", [None, '{"audit": true}', '{"no such setting": 1}', "["])
def test_settings_that_were_changed_without_an_entry_are_found(
    backend: str, forged: str | None, tmp_path: Path
) -> None:
    """The log may even have been switched off by this. `verify` finds it with and without an anchor."""
    with opened(backend, tmp_path) as place:
        store = place.store()
        store.change_settings(SETTINGS)
        store.execute({"command": "create", "path": A, "file_text": "one"})
        file, key = str(tmp_path / "anchors"), str(tmp_path / "key")
        AnchorKey.create(key)
        assert store.audit.anchor(file, key) is not None
        assert store.audit.verify(anchor=file, key=key).is_sound
        forge_settings(place, store, forged)
        for found in (store.audit.verify(), store.audit.verify(anchor=file, key=key)):
            assert str(found.problem) == "entry 1: settings altered"
        assert "audit_wrong" in {finding.code for finding in check(place.backend)}


def test_recorded_changes_of_settings_are_sound(scene: Scene) -> None:
    """A change has an entry with the new digest. After the log was switched off, changes need no entry."""
    scene.anchor()
    scene.store.change_settings({"max_memories": 7})
    assert scene.findings() == []
    scene.anchor()
    scene.store.trust.quarantine("session:s1", actor="user:ann")
    assert scene.findings() == []
    scene.anchor()
    scene.store.change_settings({"audit": False})
    scene.store.change_settings({"max_memories": 8})
    assert scene.findings() == []
    scene.store.change_settings({"audit": True})
    assert scene.findings() == []
    forge_settings(scene.place, scene.store, '{"audit": true}')
    assert [each.partition(": ")[2] for each in scene.findings()] == ["settings altered"]
