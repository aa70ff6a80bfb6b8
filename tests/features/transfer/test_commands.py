"""Output and exit status of `retentive export`, `import`, `backup`, `restore-backup` and `migrate`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import retentive
from retentive.storage.sealed.keys import KeyRing, add_key
from support.command_line import RETENTIVE, environment, here
from support.damage import sql

from .copies import fill

MARKER = "quetzal-7731"


@pytest.fixture(autouse=True)
def _no_keys_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETENTIVE_KEYS", "RETENTIVE_KEYS_FILE", "RETENTIVE_AT", "RETENTIVE_STORE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def at(tmp_path: Path) -> str:
    """Location with two memory stores."""
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as opened:
        fill(opened.store(), 1, steps=20)
        fill(opened.store("second"), 2, steps=20)
    return at


def done(at: str | Path, *arguments: str) -> str:
    result = here(at, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_files_are_imported_with_a_line_for_each(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.md").write_text("one")
    (tmp_path / "files" / "link").symlink_to("a.md")
    at = f"sqlite:///{tmp_path}/m.db"
    dry = here(at, "import", str(tmp_path / "files"), "--dry-run")
    assert (dry.exit_code, names(tmp_path)) == (1, ["files"])
    assert sorted(dry.stdout.splitlines()) == ["created\t/memories/a.md", "refused\tlink\ta symbolic link"]
    assert dry.stderr == "Would be: 1 created, 1 refused.\n"
    ended = here(at, "import", str(tmp_path / "files"))
    assert (ended.exit_code, ended.stdout) == (1, dry.stdout)
    (tmp_path / "files" / "link").unlink()
    again = json.loads(done(at, "import", str(tmp_path / "files"), "--json"))
    assert again["files"] == [{"name": "a.md", "path": "/memories/a.md", "became": "same", "why": None}]
    assert (again["same"], again["created"]) == (1, 0)
    assert here(at, "import", str(tmp_path / "nothing")).exit_code == 3
    assert here(at, "import", str(tmp_path / "files"), "--as", "x").exit_code == 2


@pytest.mark.parametrize("data", [b"\xff", b"a\0b"])
def test_a_damaged_text_is_named_and_the_others_are_saved(data: bytes, tmp_path: Path) -> None:
    """An export to a directory omits the damaged text. An export to a file fails, since the file could not be imported.

    The exit status is 13.
    """
    at = f"sqlite:///{tmp_path}/m.db"
    with retentive.open(at) as opened:
        for name in ("a", "b"):
            opened.store().execute({"command": "create", "path": f"/memories/{name}", "file_text": name})
        wrong = opened.store().load("/memories/a")[0].version_id
    fitting = (data, hashlib.sha256(data).hexdigest(), wrong)
    sql(at, "UPDATE versions SET text = ?, sha256 = ? WHERE id = ?", fitting)
    ended = here(at, "export", str(tmp_path / "out"))
    assert (ended.exit_code, ended.stderr) == (13, "/memories/a: its text is damaged\n")
    assert ended.stdout == "Exported 1 memory, as of revision 2.\n"
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["b"]
    for command in (["export", str(tmp_path / "e.tar")], ["admin", "backup", str(tmp_path / "b.tar")]):
        ended = here(at, *command)
        error, file, location = ended.stderr.splitlines()
        assert (ended.exit_code, error) == (
            13,
            f"Error: the text of version {wrong} is not valid UTF-8 or contains a NUL character",
        )
        assert (file.split(": ")[1], location) == (command[-1], f"Location: {at}")
    assert names(tmp_path) == ["m.db", "m.db-reserve", "out"]


@pytest.fixture
def keys(tmp_path: Path) -> str:
    file = str(tmp_path / "keys.json")
    add_key(file)
    return file


def test_a_backup_of_encrypted_stores_is_encrypted_and_needs_no_keys(keys: str, tmp_path: Path) -> None:
    """A backup and its restore need no keys. The restored store opens with the same keys.

    The file contains no plain text.
    """
    at, other = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "other")
    for path in ("/memories/a.md", "/memories/b.md"):
        done(at, "--keys", keys, "create", path, MARKER)
    file = tmp_path / "b.tar"
    done(at, "admin", "backup", str(file))
    assert MARKER.encode() not in file.read_bytes()
    done(other, "admin", "restore-backup", str(file))
    assert here(other, "cat", "/memories/a.md").exit_code == 15
    assert done(other, "--keys", keys, "cat", "/memories/b.md") == MARKER
    exported = here(at, "export", str(tmp_path / "e.tar"))
    assert (exported.exit_code, "e.tar" in names(tmp_path)) == (15, False)
    done(at, "--keys", keys, "export", str(tmp_path / "e.tar"))
    assert MARKER.encode() in (tmp_path / "e.tar").read_bytes()


def test_a_migration_encrypts_decrypts_or_keeps_encrypted(keys: str, tmp_path: Path) -> None:
    """The result depends on the keys of the source and of the target."""
    plain, sealed, opened, raw, other = (f"sqlite:///{tmp_path}/{name}.db" for name in ("p", "s", "o", "r", "x"))
    done(plain, "create", "/memories/a.md", MARKER)
    assert "1 copied now" in done(plain, "admin", "migrate", sealed, "--to-keys", keys)
    assert MARKER.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("s.db*"))
    assert done(sealed, "--keys", keys, "cat", "/memories/a.md") == MARKER
    assert here(sealed, "cat", "/memories/a.md").exit_code == 15
    done(sealed, "admin", "migrate", opened, "--from-keys", keys)
    assert done(opened, "cat", "/memories/a.md") == MARKER
    done(sealed, "admin", "migrate", raw)
    assert done(raw, "--keys", keys, "cat", "/memories/a.md") == MARKER
    assert here(sealed, "admin", "migrate", other, "--to-keys", keys).exit_code == 15
    assert here(plain, "admin", "migrate", other, "--from-keys", keys).exit_code == 2
    assert here(plain, "admin", "migrate", plain).exit_code == 2
    done(opened, "create", "/memories/later", "x")
    refused = here(plain, "admin", "migrate", opened)
    assert (refused.exit_code, "other versions" in refused.stderr) == (2, True)
    rotated = KeyRing.from_file(keys).current_id
    done(sealed, "--keys", keys, "admin", "encryption", "rotate", "--new")
    assert KeyRing.from_file(keys).current_id != rotated
    assert json.loads(done(sealed, "admin", "migrate", raw, "--json"))["stores"][0]["added"] == 0
    status = json.loads(done(raw, "--keys", keys, "admin", "encryption", "status", "--json"))["stores"]
    assert [one["current"] for one in status] == [True]


@pytest.mark.long
def test_a_full_disk_leaves_no_half_file(at: str, tmp_path: Path) -> None:
    """The error is clear, and neither the file nor a temporary file beside it exists."""
    with retentive.open(at, max_store_bytes=0, max_memory_bytes=0) as opened:
        for number in range(10):
            text = os.urandom(100_000).hex()
            opened.store().execute({"command": "create", "path": f"/memories/big/{number}", "file_text": text})
    room = tmp_path / "room"
    for arguments in (["export", "room/files"], ["admin", "backup", "room/b.tar"]):
        room.mkdir()
        limit = 100 if arguments[-1] == "room/files" else 1_000  # blocks of 1 KB
        limited = [
            "bash",
            "-c",
            f'trap "" XFSZ; ulimit -f {limit}; exec "$@"',
            "-",
            RETENTIVE,
            "--at",
            at,
            *arguments,
        ]
        ended = subprocess.run(
            limited, cwd=tmp_path, env=environment(tmp_path), capture_output=True, timeout=60, check=False
        )
        assert (ended.returncode, b"the disk is full" in ended.stderr) == (10, True), ended.stderr
        assert names(room) == []
        shutil.rmtree(room)


def test_a_directory_that_nothing_has_opened_is_copied_whole(tmp_path: Path) -> None:
    """Its files have no history yet, and would otherwise be left out without a word."""
    files = tmp_path / "memory" / "memories"
    for name in ("backup", "migrate"):
        shutil.rmtree(tmp_path / "memory", ignore_errors=True)
        files.mkdir(parents=True)
        (files / "a.md").write_text("from before\n")
        target = f"sqlite:///{tmp_path}/{name}.db"
        if name == "backup":
            assert here(str(tmp_path / "memory"), "admin", "backup", str(tmp_path / "saved.tar.zst")).exit_code == 0
            assert here(target, "admin", "restore-backup", str(tmp_path / "saved.tar.zst")).exit_code == 0
        else:
            assert here(str(tmp_path / "memory"), "admin", "migrate", target).exit_code == 0
        assert here(target, "cat", "a.md").stdout == "from before\n"


def test_migrate_refuses_keys_that_it_would_ignore(keys: str, tmp_path: Path) -> None:
    """The copy would be in plain text."""
    at = f"sqlite:///{tmp_path}/plain.db"
    done(at, "create", "/memories/a", "a")
    refused = here(at, "--keys", keys, "admin", "migrate", f"sqlite:///{tmp_path}/copy.db")
    assert (refused.exit_code, "--to-keys" in refused.stderr) == (2, True)
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("command", [("export",), ("admin", "backup")])
@pytest.mark.parametrize("name", ["out.tar.gz", "out.tgz"])
def test_a_name_of_gzip_is_refused(at: str, tmp_path: Path, command: tuple[str, ...], name: str) -> None:
    """Otherwise an export would be a directory of this name without the history, and a backup not be of gzip."""
    ended = here(at, *command, str(tmp_path / name))
    assert (ended.exit_code, "let its name end with .tar.zst" in ended.stderr) == (2, True)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("command", ["drill", "restore-backup"])
def test_a_directory_in_place_of_a_backup_is_named_as_such(at: str, tmp_path: Path, command: str) -> None:
    ended = here(at, "admin", command, str(tmp_path))
    assert (ended.exit_code, "this is a directory; name a file" in ended.stderr) == (2, True)
