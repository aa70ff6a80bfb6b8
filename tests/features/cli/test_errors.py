"""Error messages name the location or the file, for the user of the shell, but no password."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from retentive.cli.location import shown
from support.command_line import here, inside
from support.damage import sql

PATH = "/memories/notes.md"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory with a memory in `memory.db` the current one."""
    monkeypatch.chdir(tmp_path)
    assert here("sqlite:///memory.db", "create", PATH, "one").exit_code == 0
    return tmp_path


@pytest.mark.usefixtures("directory")
def test_a_location_that_cannot_be_opened_is_named() -> None:
    Path("broken.db").write_text("not a database, but longer than the header of a database " * 40)
    ended = here("sqlite:///broken.db", "ls")
    assert ended.exit_code == 13
    assert ended.stderr.endswith("\nLocation: sqlite:///broken.db\n")
    assert json.loads(here("sqlite:///broken.db", "ls", "--json").stdout)["text"] + "\n" == ended.stderr


def test_an_error_reply_of_the_storage_is_followed_by_the_location(directory: Path) -> None:
    """The reply is the one that a model gets. The location follows on a line of its own."""
    sql(f"sqlite:///{directory}/memory.db", "UPDATE versions SET text = ?", (b"\xff",))
    ended = here("sqlite:///memory.db", "view", PATH)
    reply = json.loads(here("sqlite:///memory.db", "view", PATH, "--json").stdout)
    assert (ended.exit_code, reply["code"]) == (13, "damaged")
    assert ended.stderr == f"{reply['text']}\nLocation: sqlite:///memory.db\n"
    assert "sqlite" not in reply["text"]


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["import", "missing"], "Source: missing"),
        (["import", "/dev/null"], "no file and no directory, or does not exist\nSource: /dev/null"),
        (["import", "--whole", "memory.db"], "Source: memory.db"),
        (["export", "memory.db"], "Destination: memory.db"),
        (["admin", "backup", "memory.db"], "File: memory.db"),
        (["admin", "restore-backup", "missing.tar"], "File: missing.tar"),
        (["--keys", "missing.json", "ls"], "Key file: missing.json"),
        (["admin", "audit", "key", "no/such/key"], "Key file: no/such/key"),
        (["admin", "audit", "anchor", "anchors", "--key", "missing.key"], "Anchors: anchors\nKey file: missing.key"),
        (["admin", "audit", "verify", "--anchor", "anchors", "--key", "missing.key"], "Key file: missing.key"),
        (["admin", "migrate", "other.db"], "TO: other.db"),
        (["create", "b", "--file", "missing"], "'missing': No such file"),
    ],
)
def test_files_are_named(command: list[str], named: str) -> None:
    ended = here("sqlite:///memory.db", *command)
    assert ended.exit_code != 0
    assert named in ended.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["ls"],
        ["create", PATH, "x"],
        ["doctor"],
        ["admin", "migrate-schema"],
        ["admin", "backup", "new.tar"],
    ],
)
@pytest.mark.parametrize(
    ("location", "shown"),
    [("notes.db", "notes.db"), ("sqlite:m.db", "sqlite:m.db"), ("mysql://ann:secret@host/d?a=b", "mysql://host/d")],
)
def test_an_invalid_location_is_named(tmp_path: Path, command: list[str], location: str, shown: str) -> None:
    ended = inside(tmp_path, *command, RETENTIVE_AT=location)
    assert (ended.status, ended.out) == (2, b"")
    assert ended.err.endswith(f"\nLocation: {shown}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:{}@host/memory",
        "postgresql://host/memory?password={}",
        "mariadb://{}@host/memory#{}",
        "postgresql:ann:{}@host",
        "s3://bucket/prefix?secret_access_key={}",
    ],
)
@pytest.mark.parametrize(
    "password", ["secret", "se/cret", "se@cret", "se?cret", "se#cret", "s[e]cret", "@secret/", "s:ecret"]
)
def test_no_location_is_shown_with_its_password(url: str, password: str) -> None:
    """Also if the password has characters that have a meaning in a URL and should have been escaped."""
    printed = shown(url.replace("{}", password))
    assert "cret" not in printed
    assert "ann" not in printed


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("./memory", "./memory"),
        ("./ann@work", "./ann@work"),
        ("postgresql:ann:secret@db", "postgresql:…"),
        ("sqlite:////srv/a@b/memory.db", "sqlite:////srv/a@b/memory.db"),
        ("postgresql://ann:secret@db.example:5432/memory?sslmode=require", "postgresql://db.example:5432/memory"),
        ("postgresql://[::1]:5432/memory", "postgresql://[::1]:5432/memory"),
        ("postgresql://ann:secret", "postgresql://…"),
        ("s3://bucket/a/prefix", "s3://bucket/a/prefix"),
    ],
)
def test_the_rest_of_a_location_is_shown(url: str, expected: str) -> None:
    assert shown(url) == expected


HOSTILE = "x\x1b]0;owned\x07\x1b[31m"


@pytest.mark.parametrize(
    "arguments",
    [
        ("import", HOSTILE),
        ("admin", "restore-backup", f"{HOSTILE}.tar"),
        ("export", f"{HOSTILE}/a.md"),
        ("--keys", HOSTILE, "ls"),
        ("--store", HOSTILE, "ls"),
        ("sync", f"{HOSTILE}/none"),
        ("ls", HOSTILE),
        ("log", "--by", HOSTILE),
        (HOSTILE,),
    ],
)
def test_names_never_control_the_terminal(directory: Path, arguments: tuple[str, ...]) -> None:
    """Control characters of names are escaped, also in a pipe, whose other end may be a terminal."""
    (directory / HOSTILE).mkdir()
    for name in (f"{HOSTILE}.tar", f"{HOSTILE}/{HOSTILE}.md"):
        (directory / name).write_text("no backup")
    ended = here("sqlite:///memory.db", *arguments)
    assert all(char.isprintable() for char in (ended.stdout + ended.stderr).replace("\n", "").replace("\t", ""))


KEY = base64.b64encode(bytes(range(100, 132))).decode()
RING = json.dumps({"current": "k", "keys": {"k": KEY}})


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--keys", KEY, "ls"),
        ("--keys", RING, "ls"),
        ("--keys", f"{KEY}/x", "admin", "encryption", "new"),
        ("admin", "migrate", "--from-keys", KEY, "sqlite:///other.db"),
        ("admin", "audit", "verify", "--anchor", "a", "--key", KEY),
        ("admin", "audit", "anchor", "--key", KEY, "f"),
        (KEY,),
        ("ls", f"--api-key={KEY}"),
        ("rtv_0123456789abcdefghijKLMNOPQRST",),
        ("log", "--limit", KEY),
        ("ls", "--at", "host=db user=ann password=0123456789abcdefghij"),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_key_in_the_wrong_place_is_never_printed_or_made_a_file(arguments: tuple[str, ...], form: str) -> None:
    """The error says what the option takes."""
    ended = here("sqlite:///memory.db", *arguments, *(["--json"] if form == "json" else []))
    assert ended.exit_code != 0
    printed = f"{ended.stdout}{ended.stderr}{[each.name for each in Path().iterdir()]}"
    assert "Error" in printed
    assert KEY not in printed
    assert "0123456789abcdefghij" not in printed
    if arguments[:2] == ("--keys", KEY):
        assert "this is a key, not the path of a key file" in printed


@pytest.mark.usefixtures("directory")
def test_a_key_in_the_variable_for_the_file_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETENTIVE_KEYS_FILE", KEY)
    ended = here("sqlite:///memory.db", "ls")
    assert ended.stderr == (
        "Error: this is a key, not the path of a key file; pass the path, or the keys in RETENTIVE_KEYS\nKey file: …\n"
    )
