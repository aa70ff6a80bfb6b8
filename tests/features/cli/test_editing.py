"""`edit` makes one change through the user's editor. If the text cannot be saved, it is kept in a file."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

import retentive
from support.command_line import AT, RETENTIVE, Ended, environment, inside, process

PATH = "/memories/notes.md"
HIDDEN = "/memories/d/.dir-locals.el"
KEPT = re.compile(r"^Your text is kept in (.+)$", re.MULTILINE)


class Desk:
    """Directory with a memory store, and editors that are shell scripts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.drafts = directory / "tmp"
        self.drafts.mkdir()

    def run(self, *arguments: str, text: bytes = b"", **variables: str) -> Ended:
        return inside(self.directory, "--at", AT, *arguments, text=text, TMPDIR=str(self.drafts), **variables)

    def editor(self, script: str) -> str:
        """Create an editor whose name contains a space.

        `$1` is the option that it is called with, and `$2` is the file.
        """
        path = self.directory / "my editor"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        return f"'{path}' --wait"

    def edit(self, script: str, path: str = PATH, *options: str) -> Ended:
        return self.run("edit", path, *options, VISUAL=self.editor(script))

    def shown_by(self, script: str, path: str = PATH) -> bytes:
        """Edit in a process of its own, whose output has that of the editor."""
        edit = ("--at", AT, "edit", path)
        return process(self.directory, *edit, TMPDIR=str(self.drafts), VISUAL=self.editor(script)).out

    def versions(self) -> list[tuple[str, str, str]]:
        """Return the operation, the text and the actor of each version, newest first."""
        with retentive.open(f"sqlite:///{self.directory}/memory.db") as opened:
            store = opened.store()
            found = [each for each in store.versions() if each.path != HIDDEN]
            return [(each.operation, store.version_text(each.id), str(each.actor)) for each in found]

    def left(self) -> list[str]:
        return [each.name for each in self.drafts.iterdir()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    found = Desk(tmp_path)
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        store = opened.store()
        for path, text in {PATH: "one\r\ntwo", HIDDEN: "x"}.items():
            created = {"command": "create", "path": path, "file_text": text}
            assert not store.execute(created, actor="user:ann").is_error
    return found


CREATED = ("created", "one\r\ntwo", "user:ann")


def test_the_edited_text_is_saved_as_one_change(desk: Desk) -> None:
    ended = desk.edit('test "$1" = --wait && printf "three" >> "$2" && touch "$2~"')
    assert (ended.out.decode(), ended.err, ended.status) == (f"The file {PATH} has been edited.\n", "", 0)
    again = desk.edit('touch "$2"')
    assert (again.out.decode(), again.status) == ("No change; nothing was saved.\n", 0)
    assert desk.versions() == [("modified", "one\r\ntwothree", "user:ann"), CREATED]
    assert desk.left() == []


@pytest.mark.long
def test_the_draft_is_private_and_has_the_type_of_the_memory(desk: Desk) -> None:
    """Its name is not that of the memory, which an editor may execute."""
    file, directory = desk.shown_by('ls -l "$2"; ls -ld "$(dirname "$2")"').decode().splitlines()[:2]
    assert re.fullmatch(rf"-rw-------.* {desk.drafts}/retentive-\w+/memory\.md", file)
    assert re.fullmatch(rf"drwx------.* {desk.drafts}/retentive-\w+", directory)
    assert desk.shown_by('basename "$2"', HIDDEN).startswith(b"memory.el\n")


def test_a_location_is_created_only_to_save_a_text(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.edit("true").out == b"No change; nothing was saved.\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["my editor", "tmp"]
    assert desk.edit('test ! -s "$2" && echo x > "$2"').status == 0
    assert [text for _, text, _ in desk.versions()] == ["x\n"]


@pytest.mark.parametrize("change", [f"replace {PATH} one ONE", f"rm {PATH}", f"mv {PATH} /memories/other.md"])
def test_a_concurrent_change_is_not_overwritten(desk: Desk, change: str) -> None:
    ended = desk.edit(f'"{RETENTIVE}" --at {AT} {change} >&2; echo mine > "$2"', PATH, "--json")
    reply = json.loads(ended.out)
    assert (ended.status, reply["is_error"], reply["code"]) == (6, True, "conflict")
    assert reply["text"].startswith(f"Error: {PATH} has changed since it was read. Nothing was saved.")
    (kept,) = KEPT.findall(reply["text"])
    assert Path(kept).read_text() == "mine\n"
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert "mine\n" not in [text for _, text, _ in desk.versions()]


@pytest.mark.parametrize(
    ("script", "said", "is_kept"),
    [
        ("exit 3", "my editor' --wait: Editing failed; nothing was saved", False),
        ('echo mine > "$2"; exit 1', "Editing failed; nothing was saved", True),
        ('rm "$2"', "No such file or directory", False),
        ('printf "\\377" > "$2"', "the text is not UTF-8 (byte 1 of 1)", True),
        ('printf "a\\0b" > "$2"', "the text contains a NUL character (at position 1)", True),
        ('head -c 102401 /dev/zero | tr "\\0" x > "$2"', "would hold 102401 bytes, over the limit of 102400", True),
    ],
)
def test_a_text_that_cannot_be_saved_is_kept(desk: Desk, script: str, said: str, is_kept: bool) -> None:
    ended = desk.edit(script)
    assert ended.err.startswith("Error: ")
    assert said in ended.err
    assert ended.status != 0
    assert (len(KEPT.findall(ended.err)), len(desk.left())) == (is_kept, is_kept)
    assert desk.versions() == [CREATED]


@pytest.mark.parametrize(
    ("editor", "why"),
    [("nosuch-editor -w", "nosuch-editor: No such file or directory"), ("un'closed", "No closing quotation")],
)
def test_an_editor_that_cannot_be_started(desk: Desk, editor: str, why: str) -> None:
    ended = desk.run("edit", PATH, EDITOR=editor)
    assert (ended.err, ended.status) == (f"Error: {why}; nothing was saved\n", 1)
    assert desk.left() == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/memories/d", 4, "Error: File /memories/d already exists\n"),
        ("/notes.md", 2, "Error: Path must start with /memories, got: /notes.md\n"),
    ],
)
def test_invalid_paths_are_reported_before_the_editor_opens(desk: Desk, path: str, status: int, said: str) -> None:
    ended = desk.edit("echo opened", path)
    assert (ended.out, ended.err, ended.status) == (b"", said, status)


def test_ctrl_c_in_the_editor_is_for_the_editor(desk: Desk) -> None:
    script = 'trap "echo caught >> $2; exit 0" INT; : > ready; while :; do sleep 0.01; done'
    with subprocess.Popen(
        [RETENTIVE, "--at", AT, "edit", PATH],
        cwd=desk.directory,
        env=environment(desk.directory, {"VISUAL": desk.editor(script), "TMPDIR": str(desk.drafts)}),
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        while not (desk.directory / "ready").exists():
            assert running.poll() is None
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGINT)  # a terminal sends the signal to both processes
        assert running.wait(60) == 0
    assert desk.versions()[0][1] == "one\r\ntwocaught\n"
