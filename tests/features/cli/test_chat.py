"""`retentive chat`: its output, its slash commands, and errors and interrupts that do not end the chat."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic

import retentive
from retentive import Reply
from retentive.agent import Agent, Event, ToolReply, tidy_note
from retentive.agent import loop as agent_chat
from retentive.cli.chat import command
from retentive.cli.chat.session import Session
from retentive.testing.scripted_claude import (
    Call,
    Disconnect,
    ErrorResponse,
    Script,
    ScriptedClaude,
    StreamError,
    Thinking,
    Turn,
    scripted_claude,
)
from support.command_line import AT, RETENTIVE, Terminal, environment, here, interactive, process

from .halting import Halting

CTRL_C, CTRL_D = "\x03", "\x04"
TEA = "/memories/tea.md"
LOOK = Call({"command": "view", "path": "/memories"})
NOTE = Call({"command": "create", "path": TEA, "file_text": "likes tea\n"})
EDIT = Call({"command": "str_replace", "path": TEA, "old_str": "tea", "new_str": "green tea"})
MISS = Call({"command": "view", "path": "/memories/none"})
STORY = Script(
    (
        Turn(("I look at what I know.", LOOK)),
        Turn((NOTE, MISS)),
        Turn(("You like tea, and I will remember it.",)),
        Turn((EDIT,)),
        Turn(("Green it is.",)),
    ),
    when="tea",
)
TOLD = "I like tea.\n"
CORRECTED = "Green tea.\n"
MISSING = "The path /memories/none does not exist. Please provide a valid path."
LISTED = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[ScriptedClaude]:
    with scripted_claude(STORY) as started:
        yield started
    assert started.failures == []


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


def chatted(at: str, server: ScriptedClaude, text: str, *options: str) -> tuple[str, int]:
    """Run the chat in this process with these lines as standard input. Returns the output and the exit status."""
    done = here(at, "chat", "--base-url", server.url, *options, text=text.encode())
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.stdout, done.exit_code


def events(printed: str, *kinds: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in printed.splitlines()]
    return [event for event in found if not kinds or event["event"] in kinds]


def last_messages(server: ScriptedClaude) -> list[dict[str, Any]]:
    body = server.requests[-1].body
    assert isinstance(body, dict)
    return list(body["messages"])


# -- in a pipe -----------------------------------------------------------------------------------------------


def test_a_pipe_gets_plain_text(tmp_path: Path, server: ScriptedClaude) -> None:
    """--base-url needs no API key. If one message has two calls, each reply names its call."""
    ended = process(tmp_path, "--at", AT, "chat", "--base-url", server.url, text=(TOLD + "\n" + CORRECTED).encode())
    assert (ended.err, ended.status) == ("", 0)
    assert ended.out.decode().splitlines() == [
        "I look at what I know.",
        "[memory] view /memories",
        f"  {LISTED}",
        f"[memory] create {TEA}",
        "[memory] view /memories/none",
        f"  create {TEA}: File created successfully at: {TEA}",
        f"  view /memories/none: {MISSING}",
        "You like tea, and I will remember it.",
        f"[memory] str_replace {TEA}",
        "  The memory file has been edited. Here is the snippet showing the change (with line numbers):",
        "Green it is.",
    ]
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        store = opened.store()
        assert store.read(TEA) == "likes green tea\n"
        assert [version.actor and version.actor.kind for version in store.versions()] == ["session", "session"]


def test_json_has_a_line_for_each_event(at: str, server: ScriptedClaude) -> None:
    printed, status = chatted(at, server, TOLD + "/view tea.md\n", "--json")
    assert status == 0
    found = events(printed)
    assert {event["event"] for event in found} == {
        "started", "text", "tool_call", "tool_reply", "usage_report", "finished", "command",
    }  # fmt: skip
    assert found[0] == {"event": "started", "model": command.MODEL, "store": "default", "actor": found[0]["actor"]}
    calls = events(printed, "tool_call")
    assert [call["input"] for call in calls] == [LOOK.input, NOTE.input, MISS.input]
    replies = events(printed, "tool_reply")
    assert [(reply["id"], reply["is_error"]) for reply in replies] == [
        (call["id"], wrong) for call, wrong in zip(calls, [False, False, True], strict=True)
    ]
    assert "".join(event["text"] for event in events(printed, "text")).endswith("I will remember it.")
    assert events(printed, "finished")[0]["reason"] == "end_turn"
    assert found[-1] == {
        "event": "command",
        "command": "/view tea.md",
        "text": f"Here's the content of {TEA} with line numbers:\n     1\tlikes tea",
        "is_error": False,
    }


def test_a_missing_key_is_reported_with_the_remedy(tmp_path: Path) -> None:
    ended = process(tmp_path, "--at", AT, "chat")
    assert (ended.out, ended.status) == (b"", 2)
    first, second = ended.err.splitlines()
    assert "set ANTHROPIC_API_KEY" in first
    assert "--base-url" in first
    assert "`retentive demo`" in second
    assert list(tmp_path.iterdir()) == []


def test_a_missing_sdk_is_reported_with_the_remedy(tmp_path: Path) -> None:
    code = "import sys; sys.modules['anthropic'] = None; from retentive.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "--at", AT, "chat"]
    env = environment(tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    extra = "`retentive chat` needs the extra `anthropic` of retentive"
    assert done.stderr == f"Error: {extra}: pip install 'anthropic>=2.11,<3'\n"
    assert (done.returncode, done.stdout) == (2, "")


def test_a_call_as_long_as_a_model_likes_is_one_line(at: str) -> None:
    call = Call({"command": "view", "path": "/memories/" + "x\n" * 10_000})
    with scripted_claude(Script((Turn((call,)), Turn(("Done.",))))) as server:
        lines = chatted(at, server, "Go.\n")[0].splitlines()
    assert [line[-1] for line in lines] == ["…", "…", "."]
    assert max(map(len, lines)) < 520


def test_the_options_reach_the_request(at: str, server: ScriptedClaude) -> None:
    options = ["--model", "claude-x", "--system", "Be brief.", "--max-tokens", "99", "--language", "de"]
    chatted(at, server, TOLD, *options)
    body = server.requests[0].body
    assert isinstance(body, dict)
    assert (body["model"], body["max_tokens"]) == ("claude-x", 99)
    assert [part["text"] for part in body["system"]] == ["Be brief.\n\n" + tidy_note(language="de")]
    assert [edit["type"] for edit in body["context_management"]["edits"]] == ["clear_tool_uses_20250919"]
    chatted(at, server, TOLD, "--no-context-editing")
    assert "context_management" not in str(server.requests[-1].body)
    assert chatted(at, server, TOLD, "--no-context-editing", "--compact")[1] == 2


def test_the_defaults_are_those_of_the_agent() -> None:
    assert command.MODEL == agent_chat.MODEL


def test_the_actor_can_be_named(at: str, server: ScriptedClaude) -> None:
    done = here(at, "--actor", "session:s1", "chat", "--base-url", server.url, text=(TOLD + "/undo\n/undo\n").encode())
    assert done.stdout.splitlines()[-2:] == [f"deleted  {TEA}", "Nothing to undo."]
    with retentive.open(at) as opened:
        assert [str(version.actor) for version in opened.store().versions()] == ["session:s1", "session:s1"]


def test_an_invalid_line_is_reported_and_the_next_is_answered(at: str, server: ScriptedClaude) -> None:
    done = here(at, "chat", "--base-url", server.url, text=b"caf\xe9\n" + TOLD.encode())
    first, *rest = done.stdout.splitlines()
    assert (first, done.exit_code) == ("Error: the text is not UTF-8 (byte 4 of 5)", 1)
    assert rest[-1] == "You like tea, and I will remember it."


def test_a_message_may_begin_with_a_path(at: str) -> None:
    with scripted_claude(Script((Turn(("I see.",)),), when=TEA)) as server:
        assert chatted(at, server, f"{TEA} is wrong\n") == ("I see.\n", 0)


# -- slash commands ------------------------------------------------------------------------------------------


def test_the_memory_as_a_tree(at: str, server: ScriptedClaude) -> None:
    with retentive.open(at) as opened:
        for path, text in {"/memories/a/b/c.md": "x" * 1536, "/memories/a.txt": "x", "/memories/a/z": "xx"}.items():
            assert not opened.store().execute({"command": "create", "path": path, "file_text": text}).is_error
    printed, status = chatted(at, server, "/memory\n")
    assert status == 0
    assert printed.splitlines() == [
        "   1.5K  /memories/",
        "     1B    a.txt",
        "   1.5K    a/",
        "   1.5K      b/",
        "   1.5K        c.md",
        "     2B      z",
    ]


def test_a_diff_shows_what_claude_changed_and_nothing_else(at: str) -> None:
    with retentive.open(at, actor="user:ann") as opened:
        store = opened.store()
        assert not store.execute({"command": "create", "path": TEA, "file_text": "one\ntwo\n"}).is_error
    turns = (
        Turn((Call({"command": "str_replace", "path": TEA, "old_str": "two", "new_str": "2"}),)),
        Turn((Call({"command": "rename", "old_path": TEA, "new_path": "/memories/t.md"}),)),
        Turn((Call({"command": "create", "path": "/memories/new", "file_text": "n\n"}),)),
        Turn((Call({"command": "create", "path": "/memories/empty", "file_text": ""}),)),
        Turn((Call({"command": "create", "path": "/memories/gone", "file_text": "g\n"}),)),
        Turn((Call({"command": "delete", "path": "/memories/gone"}),)),
        Turn(("Done.",)),
    )
    with scripted_claude(Script(turns)) as server:
        printed, _ = chatted(at, server, "/diff\nGo.\n/diff\n")
    first, *rest = printed.splitlines()
    assert first == "No changes by Claude."
    assert rest[rest.index("Done.") + 1 :] == [
        f"rename from {TEA}",
        "rename to /memories/t.md",
        f"--- a{TEA}",
        "+++ b/memories/t.md",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
        "--- /dev/null",
        "+++ b/memories/new",
        "@@ -0,0 +1 @@",
        "+n",
        "--- /dev/null",
        "+++ b/memories/empty",
    ]


def test_undoing_one_by_one_and_all(at: str, server: ScriptedClaude) -> None:
    printed, _ = chatted(at, server, f"{TOLD}{CORRECTED}/undo\n/view tea.md\n/undo\n/undo\n/diff\n/memory\n")
    assert printed.splitlines()[-7:] == [
        f"reverted  {TEA}",
        f"Here's the content of {TEA} with line numbers:",
        "     1\tlikes tea",
        f"deleted  {TEA}",
        "Nothing to undo.",
        "No changes by Claude.",
        "     0B  /memories/",
    ]
    printed, _ = chatted(at, server, f"{TOLD}{CORRECTED}/undo\n/undo all\n/undo all\n/undo it\n")
    assert printed.splitlines()[-4:] == [
        f"reverted  {TEA}",
        f"deleted  {TEA}",
        "Nothing to undo.",
        "Error: use /undo or /undo all",
    ]
    with retentive.open(at) as opened:
        undone = [version for version in opened.store().versions() if version.operation == "deleted"]
        assert {version.actor and version.actor.kind for version in undone} == {"user"}


def test_a_conflict_is_reported_and_nothing_is_undone(at: str) -> None:
    """Another actor changes the memory after Claude's change and before the undo of that change."""

    def answer(_seen: object) -> list[Call] | str:
        if retentive_text(at) is None:
            return [NOTE]
        with retentive.open(at, actor="user:bob") as other:
            assert not other.store().execute({**EDIT.input}).is_error
        return "Noted."

    with scripted_claude(answer) as server:
        printed, _ = chatted(at, server, f"{TOLD}/undo\n/undo all\n")
    conflict = ["Error: nothing was undone.", f"{TEA}: a later change modified the memory."]
    assert printed.splitlines()[-4:] == [*conflict, *conflict]
    assert retentive_text(at) == "likes green tea\n"


def retentive_text(at: str) -> str | None:
    with retentive.open(at) as opened:
        store = opened.store()
        return store.read(TEA) if any(memory.path == TEA for memory in store.memories()) else None


def test_usage_adds_up_for_each_message(at: str, server: ScriptedClaude) -> None:
    printed, _ = chatted(at, server, f"/usage\n{TOLD}{CORRECTED}/usage\n", "--json")
    empty, table = (event["text"].splitlines() for event in events(printed, "command"))
    assert [line.split()[0] for line in empty] == ["message", "all"]
    rows = [[int(cell.replace(",", "")) for cell in line.split()[1:]] for line in table[1:]]
    assert [row[0] for row in rows] == [3, 2, 5]
    usage = [event["usage"] for event in events(printed, "usage_report")]
    assert rows[2][1] == sum(each["input_tokens"] for each in usage)
    assert rows[2][4] == sum(each["output_tokens"] for each in usage)
    assert rows[2][5] == sum(rows[2][1:5])
    assert [a + b for a, b in zip(rows[0], rows[1], strict=True)] == rows[2]


def test_cleared_results_are_shown(at: str) -> None:
    views = [Turn((MISS,)) for _ in range(5)]
    with scripted_claude(Script((*views, Turn(("That was all.",))))) as server:
        printed, _ = chatted(at, server, f"{'word ' * 90_000}\n/context\n")
        for number in (1, 2):
            assert printed.count(f"[context] cleared {number} tool result") == 1
        context = printed.splitlines()[-3:]
        assert context[0].startswith("clear_tool_uses_20250919: trigger 100,000 input_tokens, keep 3 tool_uses, ")
        last = r"Last: cleared 2 tool results \(\d+ tokens\)."
        assert re.fullmatch(rf"The API edited the context of 2 replies. {last}", context[1])
        counted = re.fullmatch(r"The next request has ([\d,]+) tokens, ([\d,]+) before clearing.", context[2])
        assert counted is not None
        assert counted[1] < counted[2]
        plain, _ = chatted(at, server, "/context\n", "--no-context-editing")
    assert plain.splitlines()[0] == "Context editing is off (--no-context-editing)."
    assert re.fullmatch(r"The next request has \d+ tokens.", plain.splitlines()[1])


def test_a_compaction_is_one_line(at: str) -> None:
    with scripted_claude(Script((Turn(("Long.",)),))) as server:
        printed, _ = chatted(at, server, f"{'word ' * 130_000}\n/context\n", "--compact")
    assert re.search(
        r"^\[context\] the conversation was replaced by a summary of [\d,]+ characters$", printed, re.MULTILINE
    )
    assert "Compactions: 1.\n" in printed


def test_help_lists_every_command_and_unknown_ones_are_errors(at: str, server: ScriptedClaude) -> None:
    printed, status = chatted(at, server, "/help\n/nothing at all\n/retry\n/quit\nnever said\n")
    for name in ("/memory", "/view PATH", "/diff", "/undo", "/usage", "/context", "/retry", "/help", "/quit"):
        assert re.search(rf"^{name} {{2,}}\w", printed, re.MULTILINE), name
    assert printed.splitlines()[-2:] == [
        "Error: unknown command /nothing; /help lists the commands",
        "Nothing to send again.",
    ]
    assert (status, server.requests) == (0, [])


# -- errors and interrupts -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _retries_without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retentive.agent.loop.retry_pauses", lambda retries: iter([0.0] * retries))


FAULTS = [
    pytest.param({n: ErrorResponse(429) for n in (1, 2, 3)}, "Rate limit of the API exceeded.", id="429"),
    pytest.param(dict.fromkeys((1, 2, 3), StreamError(after_events=4)), "The API is overloaded.", id="overloaded"),
    pytest.param(
        dict.fromkeys((1, 2, 3), Disconnect(after_events=4)),
        "The connection to the API failed or was interrupted.",
        id="cut",
    ),
    pytest.param({1: ErrorResponse(400)}, "The API rejected the request.", id="refused"),
    pytest.param(
        {1: ErrorResponse(401)}, "The API key is invalid or lacks permission. Check ANTHROPIC_API_KEY.", id="key"
    ),
]


@pytest.mark.parametrize(("faults", "said"), FAULTS)
def test_api_errors_are_reported_and_can_be_retried(at: str, faults: dict[int, ErrorResponse], said: str) -> None:
    with scripted_claude(STORY, faults=faults) as server:
        printed, status = chatted(at, server, f"{TOLD}/retry\n")
        found, _ = chatted(at, server, f"{CORRECTED}/retry\n", "--json")
    assert f"Error: {said}" in printed
    assert printed.splitlines()[-1] == "You like tea, and I will remember it."
    assert printed.count("[memory] view /memories\n") == 1
    assert status == 1
    assert server.failures == []
    assert events(found, "error") == []


def test_an_answer_that_ends_within_an_event_is_started_again(at: str, server: ScriptedClaude) -> None:
    with Halting(server.url, request=1, after=b"I look", closes=True).serving() as way:
        done = here(at, "chat", "--base-url", way.url, text=TOLD.encode())
    assert "[connection] The answer was interrupted; Claude starts it again.\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "You like tea, and I will remember it."


def test_an_error_as_json(at: str) -> None:
    with scripted_claude(STORY, faults={1: ErrorResponse(400)}) as server:
        printed, _ = chatted(at, server, TOLD, "--json")
    (error,) = events(printed, "error")
    assert (error["code"], error["retryable"]) == ("request_refused", False)
    assert "invalid_request_error" in error["message"]


def test_a_failing_token_count_is_reported(at: str) -> None:
    with scripted_claude(STORY) as server:
        wrong = f"{server.url}/nowhere"
    done = here(at, "chat", "--base-url", wrong, text=b"/context\n")
    assert "Error: The connection to the API failed" in done.stdout


def test_a_declined_message_is_removed(at: str) -> None:
    with scripted_claude(
        lambda seen: Turn(("No.",), stop_reason="refusal") if "poison" in seen.text else "Yes."
    ) as server:
        printed, status = chatted(at, server, "Hello.\nA poison?\nTea?\n")
        assert printed.splitlines()[-2:] == [
            "Claude declined to answer. Your message was removed from the conversation.",
            "Yes.",
        ]
        assert status == 1
        said = [block["text"] for message in last_messages(server) for block in message["content"]]
        assert said == ["Hello.", "Yes.", "Tea?"]


def test_a_truncated_answer_is_reported(at: str) -> None:
    with scripted_claude(Script((Turn(("It is",), stop_reason="max_tokens"),))) as server:
        printed, status = chatted(at, server, "Tell me.\n")
    assert printed.splitlines() == ["It is", "The answer reached --max-tokens; ask Claude to continue."]
    assert status == 1


@pytest.mark.long
def test_ctrl_c_in_a_pipe_ends_with_130(tmp_path: Path, server: ScriptedClaude) -> None:
    def started(url: str) -> subprocess.Popen[bytes]:
        command = [RETENTIVE, "--at", AT, "chat", "--base-url", url]
        pipe, env = subprocess.PIPE, environment(tmp_path)
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path, env=env)

    with Halting(server.url, request=1, after=b"I look").serving() as way, started(way.url) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write(TOLD.encode())
        running.stdin.flush()
        assert way.halted.wait(60)
        assert running.stdout.read(6) == b"I look"
        os.kill(running.pid, signal.SIGINT)
        assert running.wait(30) == 130
        assert running.stderr.read().strip() == b""


class Undone(retentive.MemoryStore):
    """Memory store that receives Ctrl-C during an undo."""

    def undo(self, change: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return super().undo(change, **options)


def test_ctrl_c_waits_for_an_undo(at: str) -> None:
    script = Script((Turn((NOTE,)), Turn(("Noted.",))))
    with scripted_claude(script) as server, retentive.open(at) as opened:
        store = opened.store()
        with (
            Anthropic(base_url=server.url, api_key="none") as client,
            Agent(client, memory=store, stream=True) as agent,
        ):
            session = Session(lambda _: agent, Undone(opened.backend, store._core.info), agent.actor)
            assert session.run(TOLD, lambda _event: None)
            outcome = session.undo_last()
            assert outcome is not None
            assert outcome.done
            assert list(store.memories()) == []


class Interrupting:
    """Memory that receives Ctrl-C during each command."""

    def __init__(self, store: retentive.MemoryStore) -> None:
        self._store = store

    def execute(self, command: object, *, actor: Any = None) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        return self._store.execute(command, actor=actor)


def test_ctrl_c_waits_for_commands_of_the_memory(at: str) -> None:
    """Both commands of the reply finish, and their results are in the conversation. Then the answer ends."""
    shown: list[Event] = []
    script = Script((Turn((NOTE, EDIT)), Turn(("Never said.",))))
    with scripted_claude(script) as server, retentive.open(at) as opened:
        store = opened.store()
        client = Anthropic(base_url=server.url, api_key="none")
        with client, Agent(client, memory=Interrupting(store), stream=True) as agent:
            session = Session(lambda _: agent, store, agent.actor)
            with pytest.raises(KeyboardInterrupt):
                session.run(TOLD, shown.append)
            assert store.read(TEA) == "likes green tea\n"
            assert [event.is_error for event in shown if isinstance(event, ToolReply)] == [False, False]
            assert [message["role"] for message in agent.messages] == ["user", "assistant", "user"]
            assert session.can_retry()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# -- on a terminal -------------------------------------------------------------------------------------------


def type_line(shown: Terminal, text: str) -> None:
    shown.type(text + "\r")
    shown.expect(text + "\r\n")


@pytest.mark.long
def test_a_conversation_on_a_terminal(tmp_path: Path, server: ScriptedClaude) -> None:
    """The test covers colours, slash commands, Ctrl-C at the prompt, and Ctrl-D."""
    with interactive(tmp_path, "--at", AT, "chat", "--base-url", server.url) as shown:
        shown.expect("/help lists the commands.\r\n> ")
        type_line(shown, TOLD.strip())
        shown.expect(f"\x1b[36m[memory] create {TEA}\x1b[0m")
        shown.expect(f"\x1b[31m  view /memories/none: {MISSING}\x1b[0m")
        shown.expect("I will remember it.\r\n> ")
        type_line(shown, "/diff")
        shown.expect("\x1b[32m+\x1b[0m\x1b[32mlikes tea\x1b[0m")
        shown.expect("> ")
        shown.type("half a message")
        shown.expect("half a message")  # the terminal echoes it, so the chat is reading the line
        shown.interrupt("(Ctrl-D or /quit ends)\r\n> ")
        type_line(shown, CORRECTED.strip())
        shown.expect("Green it is.\r\n> ")
        type_line(shown, "/undo")
        shown.expect(f"reverted  {TEA}\r\n> ")
        shown.type(CTRL_D)
        between = shown.expect("`.")
        assert re.search(
            rf"1 change of the memory; revert with `retentive --at {AT} undo --session [0-9a-f]{{16}}$", between
        )
        assert shown.end() == 0


@pytest.mark.long
def test_models_and_memories_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """With NO_COLOR, the output has no control characters at all."""
    evil = "\x1b]52;c;cm0gLXJm\x07\x9b2J\rover"
    call = Call({"command": f"view{evil}", "path": f"/memories/{evil}"})
    text = Call({"command": "create", "path": "/memories/evil", "file_text": evil})
    script = Script((Turn((Thinking(evil), f"so {evil}", call)), Turn((text,)), Turn(("Done.",))))
    with (
        scripted_claude(script) as server,
        interactive(tmp_path, "--at", AT, "chat", "--base-url", server.url, NO_COLOR="1") as shown,
    ):
        shown.expect("> ")
        type_line(shown, "Hello.")
        shown.expect("so \\x1b]52;c;cm0gLXJm\\x07\\x9b2J\\x0dover\r\n")
        shown.expect("[memory] view\\x1b]52")
        shown.expect("Done.\r\n> ")
        type_line(shown, "/view evil")
        shown.expect("     1\t\\x1b]52;c;cm0gLXJm\\x07\\x9b2J\\x0dover")
        type_line(shown, "/diff")
        shown.expect("+\\x1b]52;c;cm0gLXJm\\x07\\x9b2J\\x0dover")
        shown.expect("> ")
        shown.type(CTRL_D)
        assert shown.end() == 0
        assert not set("\x1b\x07\x9b") & set(shown.shown)


@pytest.mark.long
def test_ctrl_c_interrupts_an_answer_and_the_conversation_goes_on(tmp_path: Path) -> None:
    """The printed part of the answer stays in the conversation, so that Claude knows it too."""
    script = Script((Turn(("Once upon a time there was a long story.",)), Turn(("As you like.",))))
    with scripted_claude(script) as server, Halting(server.url, request=1, after=b"Once upon a time").serving() as way:
        with interactive(tmp_path, "--at", AT, "chat", "--base-url", way.url, NO_COLOR="1") as shown:
            shown.expect("> ")
            type_line(shown, "Tell a story.")
            shown.expect("Once upon a time")
            shown.type(CTRL_C)
            shown.expect("(interrupted)\r\n> ")
            type_line(shown, "Never mind.")
            shown.expect("As you like.\r\n> ")
            shown.type(CTRL_D)
            assert shown.end() == 0
        assert server.failures == []
        spoken = [(message["role"], message["content"][0]["text"]) for message in last_messages(server)]
        assert [role for role, _ in spoken] == ["user", "assistant", "user"]
        assert spoken[1][1].startswith("Once upon a time")
        assert "story" not in spoken[1][1]
