"""What each door says about a place that cannot be used. `python -m features.cli.test_bad_places` prints the table.

No door creates a new empty store for a typing error, calls a healthy store damaged, says that a place is missing which
may not be read, or ends in a traceback.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import retentive
from faults.process.ext4 import memory_disk, why_not
from support.command_line import RETENTIVE, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    Prepare: TypeAlias = Callable[[Path], contextlib.AbstractContextManager[str]]

DOORS = ("library", "ls", "doctor", "serve")
LIBRARY = """
import sys, retentive
try:
    with retentive.open(sys.argv[1]) as location:
        store = location.store()
        view = store.execute({"command": "view", "path": "/memories"})
        create = store.execute({"command": "create", "path": "/memories/new.md", "file_text": "x"})
    print(view.code or "view works", create.code and f"{create.code}: {create.text}" or "create works", sep=", ")
except retentive.RetentiveError as error:
    print(f"{error.code}: {error}")
"""
S3 = "s3://b/m?endpoint=http://127.0.0.1:{port}&allow_http=true&region=eu"
_UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-chown,-fowner", "--")


@dataclass(frozen=True)
class Place:
    """A place, and the words that the answers of the library, `ls`, `doctor` and `serve` must have.

    With `root`, the place needs mounts or files of another user. With `limited`, root has no special rights.
    """

    name: str
    prepare: Prepare
    words: tuple[str, str, str, str]
    root: bool = False
    limited: bool = False
    may_be_damaged: bool = False


@contextlib.contextmanager
def written(location: str, directory: Path, setup: Callable[[Path], object] = lambda _: None) -> Iterator[str]:
    setup(directory)
    yield location.format(d=directory, port=free_port())


def at(location: str, setup: Callable[[Path], object] = lambda _: None) -> Prepare:
    return lambda directory: written(location, directory, setup)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def with_store(location: str) -> None:
    with retentive.open(location) as opened:
        opened.store().create("/memories/notes.md", "one")


def foreign_database(directory: Path) -> None:
    with contextlib.closing(sqlite3.connect(directory / "other.db")) as other:
        other.execute("CREATE TABLE songs (name)")


def altered_columns(directory: Path) -> None:
    with_store(f"sqlite:///{directory}/m.db")
    with contextlib.closing(sqlite3.connect(directory / "m.db")) as other:
        other.execute("ALTER TABLE memories RENAME COLUMN path TO place")


def text_file(directory: Path) -> None:
    (directory / "a").write_text("text" * 999)


def other_user(directory: Path) -> None:
    with_store(f"{directory}/m")
    for path in (directory / "m", *(directory / "m").rglob("*")):
        os.chown(path, 65_534, 65_534)


def only_readable(directory: Path) -> None:
    other_user(directory)
    for path in (directory / "m", *(directory / "m").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@contextlib.contextmanager
def read_only(directory: Path, location: str) -> Iterator[str]:
    """A read-only mount of a store that is closed."""
    (place := directory / "place").mkdir()
    with_store(location.format(d=place))
    subprocess.run(["mount", "--bind", place, place], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", place], check=True)
        yield location.format(d=place)
    finally:
        subprocess.run(["umount", "--lazy", place], check=False)


@contextlib.contextmanager
def full(directory: Path, location: str) -> Iterator[str]:
    """A store on a disk that another file has filled."""
    with memory_disk(directory, size_kb=4_096) as disk:
        with_store(location.format(d=disk))
        with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(bytes(4_096)):
                pass
        yield location.format(d=disk)


@contextlib.contextmanager
def plain_server(_: Path) -> Iterator[str]:
    """A web server without TLS, at an address that begins with `https`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


LOCAL_ONLY = "run it on the machine of the server"
VARIABLE = ("variable",) * 4
REFUSED = ("connection was refused",) * 4
OPTION = ("unknown option 'colour'",) * 4
READ_ONLY = ("view works, storage_read_only: Error: /memories/new.md is read-only", "notes.md", "healthy", "read-only")
FULL = ("view works, store_full: Error: The memory store is full", "notes.md", "healthy", "no space is left")
PLACES = (
    Place("a variable that nobody replaced", at("${{HOME}}/memory"), VARIABLE),
    Place("a variable of Windows", at("%APPDATA%/memory"), VARIABLE),
    Place("a variable in a URL", at("sqlite:///$HOME/m.db"), VARIABLE),
    Place("a path of Windows", at(r"C:\Users\ann\memory"), ("path of Windows",) * 4),
    Place("a parameter behind a path", at("sqlite:///m.db?mode=ro"), ("no parameters",) * 4),
    Place("an unknown option of S3", at("s3://bucket/m?colour=red"), OPTION),
    Place("an unknown option of PostgreSQL", at("postgresql://ann@127.0.0.1/m?colour=red"), OPTION),
    Place("an unknown option of MariaDB", at("mariadb://ann@127.0.0.1/m?colour=red"), OPTION),
    Place("a mistyped scheme", at("htp://host/memory"), ("unknown scheme 'htp'",) * 4),
    Place("a file for a directory", at("{d}/a", lambda d: (d / "a").touch()), ("is a file, not a directory",) * 4),
    Place("a directory for a file", at("sqlite:///{d}"), ("is a directory, not a database file",) * 4),
    Place("below a file", at("{d}/a/m", lambda d: (d / "a").touch()), ("is below a file",) * 4),
    Place("a pipe", at("sqlite:///{d}/pipe", lambda d: os.mkfifo(d / "pipe")), ("is a pipe",) * 4),
    Place("a device", at("sqlite:////dev/null"), ("is a device",) * 4),
    Place("a link to nothing", at("{d}/link", lambda d: (d / "link").symlink_to("x")), ("is a link to nothing",) * 4),
    Place("another program's database", at("sqlite:///{d}/other.db", foreign_database), ("another application",) * 4),
    Place("a text file", at("sqlite:///{d}/a", text_file), ("not a database",) * 4, may_be_damaged=True),
    Place(
        "altered columns",
        at("sqlite:///{d}/m.db", altered_columns),
        ("damaged", "damaged", "damaged", "Serving"),
        may_be_damaged=True,
    ),
    Place("a wrong port of PostgreSQL", at("postgresql://ann:secret@127.0.0.1:{port}/m"), REFUSED),
    Place("a wrong port of MariaDB", at("mariadb://ann:secret@127.0.0.1:{port}/m"), REFUSED),
    Place("an unknown host", at("postgresql://ann:secret@host.invalid/m"), ("name of the host is unknown",) * 4),
    Place("a wrong port of S3", at(S3), REFUSED),
    Place("a wrong port of a server", at("http://127.0.0.1:{port}"), (*REFUSED[:2], LOCAL_ONLY, LOCAL_ONLY)),
    Place("https to a plain server", plain_server, ("does not use TLS", "does not use TLS", LOCAL_ONLY, LOCAL_ONLY)),
    Place("a directory of another user", at("{d}/m", other_user), ("no permission",) * 4, root=True, limited=True),
    Place("files that may only be read", at("{d}/m", only_readable), READ_ONLY, root=True, limited=True),
    Place("SQLite in such files", at("sqlite:///{d}/m/.retentive/memory.db", only_readable), READ_ONLY, True, True),
    Place("SQLite on a read-only mount", lambda d: read_only(d, "sqlite:///{d}/m.db"), READ_ONLY, root=True),
    Place("a directory on a read-only mount", lambda d: read_only(d, "{d}/m"), READ_ONLY, root=True),
    Place("SQLite on a full disk", lambda d: full(d, "sqlite:///{d}/m.db"), FULL, root=True),
    Place("a directory on a full disk", lambda d: full(d, "{d}/m"), FULL, root=True),
)


def answers(place: Place, directory: Path) -> dict[str, str]:
    """Return what each door answers, in one line."""
    here = directory / "here"
    here.mkdir()
    with place.prepare(directory) as location:
        commands = {
            "library": (sys.executable, "-c", LIBRARY, location),
            "ls": (RETENTIVE, "--at", location, "ls"),
            "doctor": (RETENTIVE, "--at", location, "doctor"),
            "serve": (RETENTIVE, "--at", location, "serve", "--port", "0"),
        }
        limited = _UNPRIVILEGED if place.limited else ()
        found = {}
        for door, command in commands.items():
            lines = output_of([*limited, *command], here)
            found[door] = " / ".join(lines).replace(str(directory), "DIR")
            assert os.listdir(here) == [], door
    return found


def output_of(command: list[str], directory: Path) -> list[str]:
    """Run a command and return the lines that it printed. A server is ended as soon as it serves."""
    env = environment(directory, {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "RETENTIVE_API_KEY": "x"})
    lines = []
    with subprocess.Popen(
        command, cwd=directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Serving"):
                process.terminate()
                lines = ["Serving"]
                process.stdout.read()
                break
            lines.append(line.rstrip("\n"))
    return lines


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_every_door_says_what_is_wrong_with_a_place(place: Place, tmp_path: Path) -> None:
    if place.root and why_not() is not None:
        pytest.skip(str(why_not()))
    for door, words, answer in zip(DOORS, place.words, answers(place, tmp_path).values(), strict=True):
        assert words in answer, (door, answer)
        assert "Traceback" not in answer
        assert "secret" not in answer
        assert "restore it from a backup" not in answer or place.may_be_damaged


def print_table() -> None:
    """Print the answers to all places as a table in Markdown."""
    print("| place |", " | ".join(DOORS), "|\n| --- |" + " --- |" * len(DOORS))
    for place in [each for each in PLACES if sys.argv[1:] == [] or each.name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as directory:
            found = answers(place, Path(directory))
        cells = (answer[:200].replace("|", "\\|") for answer in found.values())
        print(f"| {place.name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    print_table()
