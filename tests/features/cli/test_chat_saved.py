"""`retentive chat` with one question, and conversations that are saved and continued."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic

import retentive
from retentive.agent import Agent
from retentive.cli.chat import conversations
from retentive.cli.chat.conversations import SavedChat
from retentive.cli.chat.interrupts import interrupts
from retentive.cli.chat.session import Session
from retentive.errors import InvalidInput
from retentive.storage.contract import Actor
from retentive.testing.scripted_claude import Call, ErrorResponse, Prompt, ScriptedClaude, Turn, scripted_claude
from support.command_line import here

TEA = "/memories/tea.md"
NOTE = Call({"command": "create", "path": TEA, "file_text": "likes tea\n"})


def answer(prompt: Prompt) -> Turn:
    """Note tea once, and then answer with the number of messages."""
    text = json.dumps(prompt.text)
    return (
        Turn(("Let me note it.", NOTE)) if "tea" in text and not prompt.calls else Turn((f"Said: {text.count('Hi')}.",))
    )


@pytest.fixture
def server() -> Iterator[ScriptedClaude]:
    with scripted_claude(answer) as started:
        yield started
    assert started.failures == []


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    return tmp_path / "state"


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


def chatted(at: str, url: str, *arguments: str, text: str = "") -> tuple[str, str, int]:
    """Run the chat in this process. Returns standard output, standard error and the exit status."""
    done = here(at, "chat", "--base-url", url, *arguments, text=text.encode())
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.stdout, done.stderr, done.exit_code


def saved(state: Path) -> dict[str, Any]:
    (path,) = state.rglob("*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.usefixtures("state")
def test_a_question_has_one_answer_on_standard_output(at: str, server: ScriptedClaude) -> None:
    out, err, status = chatted(at, server.url, "Hi, I like tea.", text="never read\n")
    assert (out, status) == ("Let me note it.\nSaid: 1.\n", 0)
    assert err.splitlines() == [f"[memory] create {TEA}", f"  File created successfully at: {TEA}"]
    assert chatted(at, server.url, " ")[2] == 2


@pytest.mark.usefixtures("state")
def test_a_question_without_an_answer_has_the_status_of_the_error(at: str) -> None:
    with scripted_claude(answer, faults={1: ErrorResponse(400)}) as server:
        out, err, status = chatted(at, server.url, "Hi.")
    assert (out, status) == ("", 18)
    assert err.startswith("Error: The API rejected the request.\n")


def test_a_conversation_continues_with_its_actor(at: str, server: ScriptedClaude, state: Path) -> None:
    assert chatted(at, server.url, "Hi, I like tea.")[0].endswith("Said: 1.\n")
    actor = saved(state)["actor"]
    assert chatted(at, server.url, "--continue", "Hi again.")[0] == "Said: 2.\n"
    out, _, _ = chatted(at, server.url, "--continue", text="/diff\n/undo\n")
    assert out.splitlines()[-2:] == ["+likes tea", f"deleted  {TEA}"]
    assert chatted(at, server.url, "--continue", text="/diff\n")[0] == "No changes by Claude.\n"
    assert saved(state)["actor"] == actor
    (path,) = state.rglob("*.json")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.usefixtures("state")
def test_conversations_have_names(at: str, server: ScriptedClaude) -> None:
    for name, expected in (("one", 1), ("two", 1), ("one", 2)):
        assert chatted(at, server.url, "--conversation", name, "Hi.")[0] == f"Said: {expected}.\n"
    assert chatted(at, server.url, "--continue", "Hi.")[0] == "Said: 3.\n"
    assert chatted(at, server.url, "--conversation", "../x", "Hi.")[2] == 2
    assert chatted(at, server.url, "--conversation", "one", "--continue", "Hi.")[2] == 2


def test_a_conversation_is_saved_only_where_it_may_be(
    at: str, server: ScriptedClaude, state: Path, tmp_path: Path
) -> None:
    assert chatted(at, server.url, "--continue", "Hi.")[2] == 3
    assert chatted(at, server.url, "--no-save", "Hi.")[2] == 0
    assert not state.exists()
    keys = str(tmp_path / "keys")
    assert here(at, "encryption", "new", "--keys", keys).exit_code == 0
    encrypted = f"sqlite:///{tmp_path}/encrypted.db"
    assert chatted(encrypted, server.url, "--keys", keys, "Hi.")[2] == 0
    assert not state.exists()
    _, err, status = chatted(encrypted, server.url, "--keys", keys, "--continue", "Hi.")
    assert (status, "encrypted" in err) == (2, True)


@pytest.mark.usefixtures("state")
def test_a_conversation_is_open_once() -> None:
    with conversations.opened("memstore_1", "one"):
        with (
            pytest.raises(InvalidInput, match="open in another process"),
            conversations.opened("memstore_1", "one"),
        ):
            pass
        with conversations.opened("memstore_2", "one"):
            pass


@pytest.mark.usefixtures("state")
def test_the_oldest_conversations_without_a_name_are_deleted(at: str, server: ScriptedClaude) -> None:
    """A conversation with a name, and one that is open in another process, remain, even if they are older."""
    assert chatted(at, server.url, "Hi.")[2] == 0
    (first,) = Path(os.environ["XDG_STATE_HOME"]).rglob("*.json")
    unnamed = [first.with_name(f"chat-{number:012x}.json") for number in range(conversations.KEPT + 1)]
    for path in (first.with_name("mine.json"), *unnamed):
        path.write_bytes(first.read_bytes())
        path.with_name(f"{path.name}.lock").touch()
    for age, path in enumerate((*reversed(unnamed), first.with_name("mine.json")), 1):
        os.utime(path, (time.time() - age, time.time() - age))
    with conversations.opened(first.parent.name, unnamed[1].stem):
        assert chatted(at, server.url, "Hi.")[2] == 0
    kept = {path.name for path in first.parent.iterdir()}
    assert {"mine.json", first.name, unnamed[1].name, unnamed[-1].name} < kept
    gone = [path.name for path in unnamed if path.name not in kept]
    assert gone == [unnamed[number].name for number in (0, 2)]
    assert not {f"{name}.lock" for name in gone} & kept
    with conversations.opened(first.parent.name, unnamed[0].stem) as again:
        assert again.messages == []


def test_an_unreadable_conversation_is_an_error(at: str, server: ScriptedClaude, state: Path) -> None:
    chatted(at, server.url, "Hi.")
    (path,) = state.rglob("*.json")
    path.write_text('{"messages": [')
    out, err, status = chatted(at, server.url, "--continue", "Hi.")
    assert (out, status) == ("", 2)
    assert str(path) in err
    assert path.read_text() == '{"messages": ['


class Looking:
    """Memory that reads the saved conversation while a command runs."""

    def __init__(self, store: retentive.MemoryStore, path: Path) -> None:
        self.seen: list[str] = []
        self._store = store
        self._path = path

    def execute(self, command: object, *, actor: Any = None) -> retentive.Reply:
        self.seen += [message["role"] for message in json.loads(self._path.read_text())["messages"]]
        return self._store.execute(command, actor=actor)


def test_a_response_is_saved_before_its_calls_run(at: str, server: ScriptedClaude, tmp_path: Path) -> None:
    with retentive.open(at) as opened, Anthropic(base_url=server.url, api_key="none") as client:
        store, path, actor = opened.store(), tmp_path / "saved.json", Actor("session", "s1")
        memory = Looking(store, path)
        session = Session(lambda _: Agent(client, memory=memory, actor=actor), store, actor, SavedChat(str(path)))
        assert session.run("Hi, I like tea.", lambda _event: None)
        assert memory.seen == ["user", "assistant"]
        assert json.loads(path.read_text())["messages"] == session.messages


def test_a_conversation_that_cannot_be_saved_goes_on(at: str, server: ScriptedClaude, state: Path) -> None:
    chatted(at, server.url, "--conversation", "one", "Hi.")
    (path,) = state.rglob("*.json")
    path.with_name("one.json.new").mkdir()
    out, err, status = chatted(at, server.url, "--conversation", "one", "Hi.")
    assert (out, status) == ("Said: 2.\n", 0)
    assert err.startswith("Error: the conversation could not be saved: ")


def test_ctrl_c_just_before_a_read_interrupts_it() -> None:
    """A signal in another thread sets Python's flag, but does not interrupt the read: as one just before the read."""
    ours, theirs = socket.socketpair()
    main, interrupted, released = threading.get_ident(), threading.Event(), threading.Event()

    def press() -> None:
        wait_until_blocked(main)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        if not interrupted.wait(20):
            released.set()
            theirs.send(b"x")

    def interrupt() -> None:
        interrupted.set()
        raise KeyboardInterrupt

    thread = threading.Thread(target=press)
    with ours, theirs:
        thread.start()
        with pytest.raises(KeyboardInterrupt), interrupts(interrupt):
            ours.recv(1)
        thread.join()
    assert not released.is_set()


def wait_until_blocked(thread: int) -> None:
    """Wait until a thread has been at the same instruction for a while."""
    seen: list[int] = []
    while len(seen) < 10 or len(set(seen)) > 1:
        time.sleep(0.01)
        seen = [*seen[-9:], sys._current_frames()[thread].f_lasti]


def test_signals_are_as_before_after_an_answer() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGURG)]
    pressed = []
    with interrupts(lambda: pressed.append(1)):
        os.kill(os.getpid(), signal.SIGINT)
        while not pressed:
            pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGURG)] == before
    assert signal.set_wakeup_fd(-1) == -1


SUMMARY = {"type": "compaction", "content": "They like tea.", "encrypted_content": "abc"}


@pytest.mark.parametrize("options", [(), ("--compact",), ("--no-context-editing",)])
@pytest.mark.parametrize("signed", [{}, {"signature": "def"}], ids=["by an edit", "on demand"])
@pytest.mark.usefixtures("state")
def test_the_size_of_a_compacted_conversation(at: str, signed: dict[str, str], options: tuple[str, ...]) -> None:
    """`/context` counts what the agent would send: with the beta of the summary, and what the API allows."""
    with scripted_claude(answer, strict=True) as server:
        assert chatted(at, server.url, *options, "--conversation", "one", "Hi.")[2] == 0
        (path,) = Path(os.environ["XDG_STATE_HOME"]).rglob("one.json")
        found = json.loads(path.read_text())
        found["messages"].append({"role": "assistant", "content": [{**SUMMARY, **signed}]})
        path.write_text(json.dumps(found))
        out, err, status = chatted(at, server.url, *options, "--conversation", "one", text="/context\n")
    assert (err, status) == ("", 0)
    assert re.fullmatch(r"The next request has [\d,]+ tokens\.", out.splitlines()[-1])
