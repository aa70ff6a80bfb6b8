"""`retentive hook`: the digest, changes of others, the synchronisation, and that no error fails a session."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import retentive
from retentive.cli.app import app, run
from retentive.cli.hooks import push
from retentive.cli.hooks.digest import MAX_CHARS
from retentive.cli.hooks.session import WAIT
from support.command_line import RETENTIVE, environment, texts
from support.http_api import Api, serving
from support.modules import run as run_code
from support.waiting import until

EVENTS = ("session-start", "prompt", "edited", "stop", "pre-compact", "session-end")
OPTION = "CLAUDE_PLUGIN_OPTION_"


@pytest.fixture(autouse=True)
def _stop_pushes() -> Iterator[None]:
    """End the processes that outlive a hook. Without a connection, they try again for 15 s."""
    yield
    for process in push._STARTED:
        process.kill()
        process.wait()
    push._STARTED.clear()


class Machine:
    """A home directory with notes, and the hooks of one session on it."""

    def __init__(self, home: Path, at: str, *, session: str = "s1", **variables: str) -> None:
        self.notes = home / "notes"
        self.notes.mkdir(parents=True)
        self.session, self.log = session, home / "state" / "retentive" / "hooks" / "hook.log"
        self.environment: dict[str, str | None] = {
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            f"{OPTION}LOCATION": at,
            f"{OPTION}STORE": "default",
            f"{OPTION}DIRECTORY": str(self.notes),
            "RETENTIVE_API_KEY": None,
            WAIT: "60",
            **variables,
        }

    def run(self, event: str, *, given: bytes | None = None, file: Path | None = None) -> Any:
        """Answer a hook. Returns the parsed output, or None. The status is 0."""
        said = {"session_id": self.session, "hook_event_name": "x", "tool_input": {"file_path": str(file)}}
        data = json.dumps(said).encode() if given is None else given
        ended = CliRunner().invoke(app, ["hook", event], input=data, env=self.environment)
        assert (ended.exit_code, ended.stderr) == (0, ""), ended.exc_info
        return json.loads(ended.stdout) if ended.stdout else None

    def context(self, event: str) -> str:
        """The context that a hook adds; empty if it adds none."""
        answer = self.run(event)
        return "" if answer is None else str(answer["hookSpecificOutput"]["additionalContext"])


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


@pytest.fixture
def machine(tmp_path: Path, at: str) -> Machine:
    return Machine(tmp_path / "one", at)


@pytest.fixture
def api() -> Iterator[Api]:
    with retentive.open("sqlite://") as opened, serving(opened) as found:
        yield found


def test_the_start_of_a_session_pulls_and_gives_a_digest(machine: Machine, at: str) -> None:
    (machine.notes / "MEMORY.md").write_text("- [Known](known.md)\n")
    with retentive.open(at, actor="user:bob") as opened:
        opened.store().write("/memories/MEMORY.md", "- [Tea](tea.md): likes\n")
        opened.store().write("/memories/tea.md", "likes tea\n")
    answer = machine.run("session-start")
    assert answer["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    text = answer["hookSpecificOutput"]["additionalContext"]
    assert "Lines of /memories/MEMORY.md that are new here:\n- [Tea](tea.md): likes\n" in text
    assert "- /memories/tea.md: created by user:bob, " in text
    assert "10B\t/memories/tea.md" in text
    assert (machine.notes / "tea.md").read_text() == "likes tea\n"
    assert texts(at)["/memories/MEMORY.md"] == (machine.notes / "MEMORY.md").read_text()
    assert sorted((machine.notes / "MEMORY.md").read_text().splitlines()) == [
        "- [Known](known.md)",
        "- [Tea](tea.md): likes",
    ]


def test_a_prompt_tells_once_what_others_changed(machine: Machine, at: str) -> None:
    (machine.notes / "tea.md").write_text("tea\n")
    machine.run("session-start")
    assert machine.run("prompt") is None
    with retentive.open(at, actor="session:s2") as opened:
        opened.store().write("/memories/tea.md", "green tea\n")
    with retentive.open(at, actor="session:s1") as opened:
        opened.store().write("/memories/own.md", "own\n")
    assert machine.context("prompt").splitlines()[1].startswith("- /memories/tea.md: modified by session:s2, ")
    assert (machine.notes / "tea.md").read_text() == "green tea\n"
    assert machine.run("prompt") is None


def test_an_edit_is_pushed_as_a_change_of_the_session(machine: Machine, at: str) -> None:
    note = machine.notes / "tea.md"
    note.write_text("tea\n")
    assert machine.run("edited", file=note) is None
    with retentive.open(at) as opened:
        assert [str(version.actor) for version in opened.store().versions()] == ["session:s1"]
    (machine.notes / "later.md").write_text("later\n")
    machine.run("edited", file=machine.notes.parent / "other.md")  # not a note
    assert texts(at) == {"/memories/tea.md": "tea\n"}
    assert machine.run("stop") is None
    assert texts(at) == {"/memories/tea.md": "tea\n", "/memories/later.md": "later\n"}


def test_the_end_of_a_session_pushes_in_a_process_of_its_own(machine: Machine, at: str) -> None:
    """The process has its own session, and none of the streams of the hook: reading them ends at once."""
    (machine.notes / "tea.md").write_text("tea\n")
    assert machine.run("session-end") is None  # returns when the last holder of the streams closes them
    until(lambda: machine.log.exists() and "status 0" in machine.log.read_text())
    assert texts(at) == {"/memories/tea.md": "tea\n"}


def test_the_process_that_pushes_is_detached(tmp_path: Path) -> None:
    asked = "(os.getsid(0) == os.getpid(), [os.readlink(f'/proc/self/fd/{n}') for n in (0, 1, 2)])"
    code = f"""
import os
from pathlib import Path
from retentive.cli.hooks import push
from retentive.cli.location import Location
push._MAIN = "import os; print(1); open('found', 'w').write(str({asked}))"
os.chdir({str(tmp_path)!r})
push.start(Location(), {str(tmp_path)!r}).wait()
print(Path("found").read_text())
"""
    assert run_code(code) == "(True, ['/dev/null', '/dev/null', '/dev/null'])"


@pytest.mark.long
def test_two_machines_share_a_server(tmp_path: Path, api: Api) -> None:
    """Each adds lines to the index; both have all of them. The API key comes from the settings of the plugin."""
    key = api.with_key("admin", act_as=("session:*",)).key
    one, two = (Machine(tmp_path / name, api.url, session=name, **{f"{OPTION}TOKEN": key}) for name in ("a", "b"))
    for machine in (one, two):
        (machine.notes / "MEMORY.md").write_text(f"- [{machine.session}]({machine.session}.md)\n")
        (machine.notes / f"{machine.session}.md").write_text(f"{machine.session}\n")
        machine.run("stop")
    assert "- [b](b.md)" in one.context("session-start")
    files = [{path.name: path.read_text() for path in each.notes.glob("*.md")} for each in (one, two)]
    assert files[0] == files[1]
    assert sorted(files[0]["MEMORY.md"].splitlines()) == ["- [a](a.md)", "- [b](b.md)"]
    assert set(files[0]) == {"MEMORY.md", "a.md", "b.md"}


@pytest.mark.parametrize("given", [b"", b"{", b"[1]", b'{"session_id": "../../x", "tool_input": 3}', b"\xff"])
def test_bad_input_does_no_harm(tmp_path: Path, given: bytes) -> None:
    machine = Machine(tmp_path / "one", f"sqlite:///{tmp_path}/memory.db")
    machine.environment[f"{OPTION}DIRECTORY"] = None
    assert [machine.run(event, given=given) for event in EVENTS] == [None] * len(EVENTS)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path != machine.log] == []


@pytest.mark.parametrize(
    "at",
    [
        "ftp://x",
        "/proc/none",
        pytest.param("http://127.0.0.1:9", marks=pytest.mark.long),
        pytest.param("postgresql://127.0.0.1:9/none", marks=pytest.mark.long),
    ],
)
def test_a_location_that_fails_does_not_fail_the_session(tmp_path: Path, at: str) -> None:
    machine = Machine(tmp_path / "one", at)
    machine.environment |= {f"{OPTION}DIRECTORY": None, WAIT: None}
    answer = machine.run("session-start")
    assert answer is None or list(answer) == ["systemMessage"]
    assert machine.run("prompt") is None


@pytest.mark.long
@pytest.mark.parametrize("event", ["session-start", "prompt"])
def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path, event: str) -> None:
    """The hook ends, although its request goes on: Claude Code would wait for it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"http://127.0.0.1:{silent.getsockname()[1]}"
        given = environment(tmp_path, {"HOME": str(tmp_path), f"{OPTION}LOCATION": at, f"{OPTION}TOKEN": "key"})
        command = [RETENTIVE, "hook", event]
        ended = subprocess.run(command, input=b"{}", capture_output=True, env=given, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    said = {"systemMessage": "retentive: the memory store did not answer within 3 s"}
    assert (json.loads(ended.stdout) if event == "session-start" else ended.stdout) == (
        said if event == "session-start" else b""
    )


def test_the_state_of_a_killed_session_does_not_stay(machine: Machine) -> None:
    machine.run("stop")
    folder = machine.log.parent
    for name, age_s in (("old", 31 * 86_400), ("young", 0)):
        (folder / f"{name}.seen").write_text("memver_1")
        os.utime(folder / f"{name}.seen", (time.time() - age_s,) * 2)
    machine.run("session-start")
    assert {path.stem for path in folder.glob("*.seen")} == {"young", "s1"}
    machine.run("session-end")
    assert {path.stem for path in folder.glob("*.seen")} == {"young"}


def test_the_user_learns_that_the_notes_were_not_synchronised(machine: Machine, at: str) -> None:
    with retentive.open(at) as opened:
        opened.store().write("/memories/tea.md", "tea\n")
    machine.run("stop")
    (machine.notes / ".retentive-sync").unlink()  # as if the directory were not mounted
    answer = machine.run("session-start")
    assert answer["systemMessage"].startswith("retentive: the notes were not synchronised.")
    assert "/memories/tea.md" in answer["hookSpecificOutput"]["additionalContext"]


@pytest.mark.parametrize("arguments", [["nothing"], [], ["prompt", "--unknown"], ["stop", "--at"]])
def test_a_wrong_command_line_does_not_block_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """Claude Code takes status 2 as an order to stop."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert run(["hook", *arguments]) == 0


def test_only_the_settings_of_the_user_name_the_directory(machine: Machine, at: str) -> None:
    """A repository may come with settings that name a private directory."""
    machine.environment[f"{OPTION}DIRECTORY"] = None
    home, private = machine.notes.parent, machine.notes.parent / "private"
    private.mkdir()
    (private / "secret.md").write_text("secret\n")
    (machine.notes / "tea.md").write_text("tea\n")
    for folder, named in ((home / "project", private), (home, machine.notes)):
        (folder / ".claude").mkdir(parents=True)
        settings = folder / ".claude" / ("settings.json" if folder == home else "settings.local.json")
        settings.write_text(json.dumps({"autoMemoryDirectory": str(named)}))
    machine.environment |= {"CLAUDE_PROJECT_DIR": str(home / "project"), "PWD": str(home / "project")}
    machine.run("stop")
    assert texts(at) == {"/memories/tea.md": "tea\n"}


def test_without_settings_the_memory_is_in_the_home_directory(
    machine: Machine, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the directory of the project."""
    machine.environment |= {f"{OPTION}LOCATION": None, f"{OPTION}STORE": None}
    (machine.notes / "tea.md").write_text("tea\n")
    monkeypatch.chdir(machine.notes.parent)
    machine.run("stop")
    assert (machine.notes.parent / ".retentive").is_dir()
    assert not (machine.notes.parent / "memory").exists()


def test_a_large_memory_stays_within_the_limits(machine: Machine, at: str) -> None:
    with retentive.open(at, actor="user:bob") as opened:
        for number in range(60):
            opened.store().write(f"/memories/{'n' * 60}-{number}.md", "x\n")
        opened.store().write("/memories/MEMORY.md", "".join(f"- {'long ' * 100}{number}\n" for number in range(150)))
    machine.environment[f"{OPTION}DIRECTORY"] = None
    text = machine.context("session-start")
    assert len(text) <= MAX_CHARS
    assert "more; read the file to see all" in text
    assert "more; view /memories with the tool memory_view to see all" in text


def test_the_log_has_no_texts_and_no_paths_of_the_host(machine: Machine, at: str) -> None:
    (machine.notes / "tea.md").write_text("a private text\n")
    machine.run("stop")
    logged = machine.log.read_text()
    assert "status 0: 1 pushed." in logged
    assert "private" not in logged
    assert str(machine.notes.parent) not in logged
    assert os.stat(machine.log).st_mode & 0o077 == 0
