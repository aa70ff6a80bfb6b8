"""`retentive keys`, from the creation of a key file to the destruction of the key of a memory store."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from click.testing import Result

import retentive
from retentive.storage.sealed.keys import KeyRing
from support.command_line import AT, here, inside, interactive

MARKER = "quetzal-7731"


class Sealed:
    """Location and the path of a key file beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "keys.json"
        self.at = f"sqlite:///{directory}/memory.db"

    def run(self, *arguments: str, text: bytes = b"") -> Result:
        return here(self.at, "--keys", str(self.file), *arguments, text=text)

    def done(self, *arguments: str, text: bytes = b"") -> str:
        result = self.run(*arguments, text=text)
        assert result.exit_code == 0, result.output
        return result.stdout

    def status(self) -> dict[str, dict[str, object]]:
        return {
            str(one["key"]): one for one in json.loads(self.done("admin", "encryption", "status", "--json"))["stores"]
        }


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    """Location with two encrypted memory stores."""
    made = Sealed(tmp_path)
    made.done("admin", "encryption", "new")
    made.done("create", "/memories/a.md", MARKER)
    made.done("--store", "second", "create", "/memories/b.md", "two")
    return made


def test_a_key_file_is_made_for_the_owner_only(tmp_path: Path) -> None:
    """Only the owner can read the key file, whatever the umask is."""
    before = os.umask(0)
    try:
        made = Sealed(tmp_path)
        said = made.done("admin", "encryption", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    assert KeyRing.from_file(made.file).current_id in said
    assert [path.name for path in tmp_path.iterdir()] == ["keys.json"]


def test_memories_are_read_with_the_keys_only(sealed: Sealed) -> None:
    """The keys come from the option or the environment.

    Without keys, or with other keys, the exit status is that of `locked`.
    """
    assert sealed.done("cat", "/memories/a.md") == MARKER
    without = here(sealed.at, "cat", "/memories/a.md")
    assert (without.exit_code, without.stdout) == (15, "")
    assert "encrypted" in without.stderr
    assert here(sealed.at, "--keys", str(sealed.directory / "none"), "cat", "/memories/a.md").exit_code == 3
    by_file = inside(sealed.directory, "--at", AT, "cat", "/memories/a.md", RETENTIVE_KEYS_FILE=str(sealed.file))
    by_text = inside(sealed.directory, "--at", AT, "cat", "/memories/a.md", RETENTIVE_KEYS=sealed.file.read_text())
    assert (by_file.out, by_text.out) == (MARKER.encode(), MARKER.encode())
    text, file = sealed.file.read_text(), str(sealed.file)
    both = inside(sealed.directory, "--at", AT, "ls", RETENTIVE_KEYS=text, RETENTIVE_KEYS_FILE=file)
    assert both.status == 2


def test_a_key_file_others_may_read_is_refused(sealed: Sealed) -> None:
    sealed.file.chmod(0o640)
    refused = sealed.run("cat", "/memories/a.md")
    assert refused.exit_code == 2
    assert "chmod 600" in refused.stderr
    assert refused.stderr.endswith(f"\nKey file: {sealed.file}\n")


def test_status_shows_the_encryption_of_each_store(sealed: Sealed) -> None:
    """The status includes plain stores and stores that are encrypted with other keys."""
    here(sealed.at, "--store", "plain", "create", "/memories/c.md", "open")
    found = sealed.status()
    key_id = KeyRing.from_file(sealed.file).current_id
    assert [(name, one["sealed"], one["kek_id"], one["readable"]) for name, one in found.items()] == [
        ("default", True, key_id, True),
        ("second", True, key_id, True),
        ("plain", False, None, False),
    ]
    lines = sealed.done("admin", "encryption", "status").splitlines()
    assert [line.split("\t")[:4] for line in lines] == [
        ["default", "yes", f"{key_id} current", "yes"],
        ["second", "yes", f"{key_id} current", "yes"],
        ["plain", "no", "", "no"],
    ]
    sealed.done("admin", "encryption", "new")
    assert sealed.done("admin", "encryption").splitlines()[0].split("\t")[2] == f"{key_id} old"
    assert [line.split("\t")[2] for line in here(sealed.at, "admin", "encryption").stdout.splitlines()] == [
        f"{key_id} missing",
        f"{key_id} missing",
        "",
    ]
    assert sealed.run("--store", "plain", "ls").exit_code == 2


def test_rotation_wraps_all_data_keys_and_can_be_repeated(sealed: Sealed) -> None:
    """After the rotation, the old key is not needed."""
    old = KeyRing.from_file(sealed.file).current_id
    counts = json.loads(sealed.done("admin", "encryption", "rotate", "--new", "--json"))
    assert counts == {"rewrapped": 2, "current": 0, "locked": 0, "destroyed": 0, "unsealed": 0}
    assert json.loads(sealed.done("admin", "encryption", "rotate", "--json"))["current"] == 2
    given = json.loads(sealed.file.read_text())
    assert given["current"] != old
    del given["keys"][old]
    sealed.file.write_text(json.dumps(given))
    assert sealed.done("cat", "/memories/a.md") == MARKER
    assert sealed.done("--store", "second", "cat", "/memories/b.md") == "two"
    assert all(one["current"] and one["readable"] for one in sealed.status().values())


def test_a_backup_of_compressed_history_needs_the_keys(sealed: Sealed) -> None:
    """Earlier texts are compressed before they are encrypted, so a copy of single texts has to open them."""
    with retentive.open(sealed.at, keys=sealed.file) as place:
        for number in range(40):
            place.store().write("/memories/a.md", f"{number} {MARKER}\n")
        place.store().sweep()
    backup, restored = str(sealed.directory / "b.tar"), f"sqlite:///{sealed.directory}/restored.db"
    refused = here(sealed.at, "admin", "backup", backup)
    assert (refused.exit_code, "needs the keys" in refused.output) == (15, True)
    sealed.done("admin", "backup", backup)
    assert MARKER.encode() not in Path(backup).read_bytes()
    assert here(restored, "admin", "restore-backup", backup).exit_code == 0
    with retentive.open(restored, keys=sealed.file) as place:
        versions = place.store().versions("/memories/a.md")
        texts = [place.store().version_text(version.id) for version in versions]
    assert texts == [f"{number} {MARKER}\n" for number in reversed(range(40))] + [MARKER]


def test_a_store_whose_key_was_destroyed_does_not_stop_a_copy_of_the_others(sealed: Sealed) -> None:
    with retentive.open(sealed.at, keys=sealed.file) as place:
        for number in range(40):
            place.store("gone").write("/memories/a.md", f"{number} {MARKER}\n")
        place.store("gone").sweep()
    here(sealed.at, "admin", "encryption", "destroy", "--store", "gone", "--yes")
    sealed.done("admin", "backup", str(sealed.directory / "b.tar"))
    keys = ("--from-keys", str(sealed.file), "--to-keys", str(sealed.file))
    assert here(sealed.at, "admin", "migrate", f"sqlite:///{sealed.directory}/copy.db", *keys).exit_code == 0
    here(f"sqlite:///{sealed.directory}/restored.db", "admin", "restore-backup", str(sealed.directory / "b.tar"))
    for name in ("copy", "restored"):
        with retentive.open(f"sqlite:///{sealed.directory}/{name}.db", keys=sealed.file) as place:
            assert [store.key for store in place.stores()] == ["default", "second"]
    assert sealed.run("admin", "backup", str(sealed.directory / "c.tar"), "--store", "gone").exit_code == 15


def test_a_destroyed_key_makes_the_store_unreadable(sealed: Sealed) -> None:
    """The command asks for confirmation and needs no key. The status shows the time of the destruction."""
    with interactive(sealed.directory, "admin", "encryption", "destroy", "--store", "default", "--at", AT) as shown:
        shown.expect("with 1 memory and all history?")
        shown.type("n\r")
        shown.expect("Nothing was removed.")
        assert shown.end() == 1
    assert sealed.run("admin", "encryption", "destroy", "--store", "default").exit_code == 2  # nobody can be asked
    assert sealed.run("admin", "encryption", "destroy", "--yes").exit_code == 2  # no store is the default
    assert sealed.done("cat", "/memories/a.md") == MARKER
    assert here(sealed.at, "admin", "encryption", "destroy", "--store", "nothing", "--yes").exit_code == 3
    said = here(sealed.at, "admin", "encryption", "destroy", "--store", "default", "--yes")
    assert said.exit_code == 0
    for command in (["cat", "/memories/a.md"], ["create", "/memories/b", "x"]):
        refused = sealed.run(*command)
        assert refused.exit_code == 15
        assert "destroyed at" in refused.stderr
    found = sealed.status()["default"]
    assert (found["readable"], found["kek_id"]) == (False, None)
    assert f"destroyed at {found['destroyed_at']}" in said.stdout
    assert (
        sealed.done("admin", "encryption", "destroy", "--store", "default", "--yes") == said.stdout
    )  # the first time is kept
    assert sealed.done("--store", "second", "cat", "/memories/b.md") == "two"
