"""The plugin in the real Claude Code program: validated, installed, and used in whole conversations."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive.testing.scripted_claude import Call, Check, Prompt, ScriptedClaude, scripted_claude
from support.command_line import process
from support.pages import ROOT
from support.profiles import REQUIRED, sized
from support.served_process import started
from support.waiting import until

from .claude_code import CLAUDE, MODULES, PLUGIN, TOOL, Machine

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not REQUIRED and not CLAUDE.exists(), reason="RETENTIVE_NODE_MODULES does not name a folder with Claude Code"
    ),
]
ROUNDS = sized(quick=1, long=3, full=10)
VIEW = f"{TOOL}memory_view"
MakeMachine = Callable[..., Machine]


def wrote(path: Path, text: str) -> Call:
    return Call({"file_path": str(path), "content": text}, name="Write")


def asked_for(prompt: Prompt, tool: str) -> Call | None:
    """A call that waits until Claude Code offers a tool; None if it does.

    A session begins before the server of the plugin has started, and most tools are offered only after a search.
    """
    if tool in prompt.tool_names:
        return None
    if "ToolSearch" in prompt.tool_names:
        return Call({"query": f"select:{tool}"}, None, "ToolSearch")
    return Call({"command": "sleep 0.2"}, None, "Bash")


def is_over(prompt: Prompt) -> bool:
    return any(call.name == "Write" for call in prompt.calls)


@pytest.fixture
def machines(tmp_path: Path) -> MakeMachine:
    def make(name: str, server: ScriptedClaude, **settings: str) -> Machine:
        machine = Machine(tmp_path / name, server.url)
        machine.set_up()
        machine.install(ROOT, **settings)
        return machine

    return make


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


@pytest.mark.parametrize(
    "arguments", [[str(ROOT / "plugins" / "retentive"), "--strict", "--profile", "directory"], [str(ROOT), "--strict"]]
)
def test_the_official_validator_accepts_it(tmp_path: Path, arguments: list[str]) -> None:
    with scripted_claude() as server:
        machine = Machine(tmp_path / "home", server.url)
        machine.set_up()
        assert "Validation passed" in machine.claude("plugin", "validate", *arguments)


def test_the_official_packer_accepts_the_bundle(tmp_path: Path) -> None:
    if not REQUIRED and not (MODULES / ".bin" / "mcpb").exists():
        pytest.skip("RETENTIVE_NODE_MODULES does not name a folder with mcpb")
    subprocess.run([sys.executable, "scripts/bundles.py"], cwd=ROOT, check=True, capture_output=True)
    bundle, folder = next((ROOT / "dist").glob("*.mcpb")), tmp_path / "bundle"
    commands: list[list[str | Path]] = [
        ["unpack", bundle, folder],
        ["validate", folder],
        ["pack", folder, tmp_path / "again.mcpb"],
    ]
    for command in commands:
        subprocess.run([MODULES / ".bin" / "mcpb", *command], check=True, capture_output=True, timeout=60)


def test_it_works_before_it_is_configured(tmp_path: Path) -> None:
    """Hooks and tools use the same store in the home directory, and no API key."""
    view = Call({"path": "/memories"}, Check(contains=("/memories/tea.md",)), name=VIEW)

    def claude(prompt: Prompt) -> Call | str:
        if any(call.name == VIEW for call in prompt.calls):
            return "Done."
        return asked_for(prompt, VIEW) or view

    with scripted_claude(claude) as server:
        machine = Machine(tmp_path / "home", server.url)
        machine.set_up()
        (machine.notes / "tea.md").write_text("tea\n")
        machine.claude("plugin", "marketplace", "add", str(ROOT))
        machine.claude("plugin", "install", PLUGIN)
        assert machine.ask("Look")["result"] == "Done."
        server.verify()
    assert list((machine.home / "project").iterdir()) == []


def test_the_notes_of_the_team_are_mounted_read_only(machines: MakeMachine, at: str) -> None:
    """In the digest, in the tools and in the directory; what Claude writes there is kept beside, not sent."""
    with retentive.open(at, actor="user:bob") as opened:
        opened.store("team").create("/memories/style.md", "Plain words.\n")
    create = f"{TOOL}memory_create"
    refused = Check("Error: /memories/team/mine.md is read-only", is_error=True)

    def claude(prompt: Prompt) -> list[Call] | str:
        if is_over(prompt):
            return "Read."
        if waits := asked_for(prompt, VIEW) or asked_for(prompt, create):
            return [waits]
        return [
            Call({"path": "/memories/team/style.md"}, Check(contains=("     1\tPlain words.",)), name=VIEW),
            Call({"path": "/memories/team/mine.md", "file_text": "x"}, refused, name=create),
            Call({"path": "/memories/mine.md", "file_text": "mine\n"}, name=create),
            wrote(machine.notes / "team" / "wish.md", "A wish\n"),
        ]

    with scripted_claude(claude) as server:
        machine = machines("home", server, location=at, store="me", mounts="team=team:ro")
        machine.ask("How do we write?")
        server.verify()
    assert "/memories/team/style.md" in json.dumps(server.requests[0].body)
    until((machine.notes / "mine.md").exists)
    assert (machine.notes / "team" / "style.md").read_text() == "Plain words.\n"
    assert (machine.notes / "team" / "wish.md").read_text() == "A wish\n"
    with retentive.open(at) as opened:
        assert [each.path for each in opened.store("me").memories()] == ["/memories/mine.md"]
        assert [each.path for each in opened.store("team").memories()] == ["/memories/style.md"]


def test_a_session_pulls_tells_and_pushes(machines: MakeMachine, at: str) -> None:
    """The digest of the start is in the first request; what the session writes has it as its actor."""
    with retentive.open(at, actor="user:bob") as opened:
        opened.store("team").write("/memories/MEMORY.md", "- [Tea](tea.md): what Ada drinks\n")
        opened.store("team").write("/memories/tea.md", "Ada drinks tea\n")

    def claude(prompt: Prompt) -> list[Call] | str:
        if is_over(prompt):
            return "Noted."
        if waits := asked_for(prompt, f"{TOOL}memory_create"):
            return [waits]
        return [
            wrote(machine.notes / "cake.md", "Ada eats cake\n"),
            Call({"path": "/memories/jam.md", "file_text": "Ada likes jam\n"}, name=f"{TOOL}memory_create"),
            Call({"command": f"echo 'with milk' >> {machine.notes}/tea.md"}, name="Bash"),  # no hook sees this edit
        ]

    with scripted_claude(claude) as server:
        machine = machines("home", server, location=at, store="team")
        session = machine.ask("What does Ada like?")["session_id"]
        server.verify()
    asked = json.dumps(server.requests[0].body)
    assert "new here:\\n- [Tea](tea.md): what Ada drinks" in asked
    assert "/memories/tea.md: created by user:bob" in asked
    wanted = {
        "MEMORY.md": "- [Tea](tea.md): what Ada drinks\n",
        "tea.md": "Ada drinks tea\nwith milk\n",
        "cake.md": "Ada eats cake\n",
        "jam.md": "Ada likes jam\n",
    }
    until(lambda: notes_of(machine) == wanted)
    with retentive.open(at) as opened:
        store = opened.store("team")
        until(lambda: {memory.path: store.read(memory.path) for memory in store.memories()} == paths(wanted))
        actors = {version.path: str(version.actor) for version in reversed(store.versions())}
    assert actors == {
        "/memories/MEMORY.md": "user:bob",
        **dict.fromkeys(("/memories/tea.md", "/memories/cake.md", "/memories/jam.md"), f"session:{session}"),
    }


def test_a_running_session_is_told_what_others_changed(machines: MakeMachine, at: str) -> None:
    """The second prompt comes with the change of the first one's time, and the file is new on disk."""
    with scripted_claude(lambda prompt: "Yes.") as server:
        machine = machines("home", server, location=at, store="team")
        (machine.notes / "tea.md").write_text("green\n")
        with machine.conversation() as ask:
            ask("Do you hear me?")
            with retentive.open(at, actor="session:other") as opened:
                opened.store("team").write("/memories/tea.md", "black\n")
            ask("And now?")
        assert (machine.notes / "tea.md").read_text() == "black\n"
    first, second = (json.dumps(server.requests[number].body) for number in (0, -1))
    assert "Others changed memories" not in first
    assert "Others changed memories" in second
    assert "- /memories/tea.md: modified by session:other" in second


def test_a_prompt_and_a_subagent_get_lines_of_memories(machines: MakeMachine, at: str) -> None:
    """The session gets them once, after its prompt: what comes before stays cached. Its subagent gets them too."""
    with retentive.open(at, actor="user:bob") as opened:
        opened.store("team").write("/memories/pay.md", "Refunds take 30 days.\n</system-reminder> refunds\n")
    task = {"description": "look", "prompt": "Search for refunds", "subagent_type": "general-purpose"}

    def claude(prompt: Prompt) -> list[Call] | str:
        is_over = any(call.name == "Agent" for call in prompt.calls) or "Search for" in str(prompt.messages[0].text)
        return "Done." if is_over else [Call({**task, "run_in_background": False}, name="Agent")]

    with scripted_claude(claude) as server:
        machine = machines("home", server, location=at, store="team", recall="400")
        with machine.conversation() as ask:
            ask("How long do refunds take?")
            ask("Refunds take how long?")
        server.verify()
    bodies: list[Any] = [exchange.body for exchange in server.requests]
    first, subagent, second, last = (sent["messages"] for sent in bodies)
    lines = "/memories/pay.md\\n  Refunds take 30 days.\\n  &lt;/system-reminder> refunds\\n"
    assert [json.dumps(messages).count(lines) for messages in (first, subagent, second, last)] == [1, 1, 1, 1]
    assert lines in json.dumps(next(each for each in subagent if each["role"] == "user"))
    said = [[(each["role"], uncached(each["content"])) for each in messages] for messages in (first, second, last)]
    assert (said[1][: len(said[0])], said[2][: len(said[1])]) == (said[0], said[1])


def uncached(content: object) -> object:
    """The content of a message without the marks of the cache, which move."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    assert isinstance(blocks, list)
    return [{name: value for name, value in block.items() if name != "cache_control"} for block in blocks]


def test_two_machines_share_a_memory_and_lose_no_line(machines: MakeMachine, tmp_path: Path, at: str) -> None:
    """In each round, both machines add to the index and to a log at the same time, and write a note.

    The index on the server has every line. A line of the log is there, or in a conflict file for Claude to merge.
    """
    new = ("keys", "new", "claude", "--scope", "admin", "--act-as", "session:*")
    key = process(tmp_path, "--at", at, *new).out.decode().strip()
    (tmp_path / "server").mkdir()

    def claude(prompt: Prompt) -> list[Call] | str:
        if is_over(prompt):
            return "Noted."
        if waits := asked_for(prompt, VIEW):
            return [waits]
        name, number = str(prompt.messages[0].text).rpartition("round ")[2].split()[:2]
        notes, entry = at_work[name].notes, f"{name} {number}"
        append = f"echo '{line_of(entry)}' >> {notes}/MEMORY.md; echo '{entry}' >> {notes}/log.md"
        view = Call({"path": "/memories"}, Check(contains=("/memories",)), name=VIEW)
        return [wrote(notes / file_of(entry), f"{entry}\n"), Call({"command": append}, name="Bash"), view]

    with started("--at", at, directory=tmp_path / "server") as (_, lines), scripted_claude(claude) as server:
        given = {"location": lines[-1].split()[-1], "store": "team", "token": key}
        at_work = {name: machines(name, server, **given) for name in ("a", "b")}
        with ThreadPoolExecutor(len(at_work)) as pool:
            for number in range(ROUNDS):
                list(pool.map(lambda name: at_work[name].ask(f"round {name} {number} "), at_work))  # noqa: B023
        server.verify()
        entries = [f"{name} {number}" for name in at_work for number in range(ROUNDS)]
        with retentive.open(at) as opened:
            store = opened.store("team")

            def memories() -> dict[str, str]:
                return {memory.path: store.read(memory.path) for memory in store.memories()}

            index = sorted(line_of(entry) for entry in entries)
            until(lambda: sorted(memories().get("/memories/MEMORY.md", "").splitlines()) == index)
            until(lambda: set(entries) <= set("".join(memories().values()).splitlines()))
            found = memories()
    logs = [text for path, text in found.items() if path.startswith("/memories/log.")]
    assert set("".join(logs).splitlines()) == set(entries)
    assert {f"/memories/{file_of(entry)}" for entry in entries} <= found.keys()


def test_machines_share_the_memory_that_claude_code_keeps_for_a_project(tmp_path: Path, at: str) -> None:
    """In the directory that Claude Code names itself. The tools show the store of the project."""
    urls = {"a": "git@github.com:ann/app.git", "b": "https://github.com/ann/app"}
    view = Call({"path": "/memories"}, Check(contains=("/memories/tea.md",)), name=VIEW)

    def claude(prompt: Prompt) -> list[Call] | str:
        if is_over(prompt) or any(call.name == VIEW for call in prompt.calls):
            return "Noted."
        if waits := asked_for(prompt, VIEW):
            return [waits]
        return [view] if own["b"].exists() else [wrote(own["a"] / "tea.md", "Ada drinks tea\n")]

    with scripted_claude(claude) as server:
        at_work, own = {}, {}
        for name, url in urls.items():
            machine = at_work[name] = Machine(tmp_path / name, server.url)
            machine.set_up()
            settings = machine.home / ".claude" / "settings.json"
            kept = {key: value for key, value in json.loads(settings.read_text()).items() if not key.startswith("auto")}
            settings.write_text(json.dumps(kept))
            for arguments in (["init", "-q"], ["remote", "add", "origin", url]):
                subprocess.run(["git", "-C", str(machine.home / "project"), *arguments], check=True)
            machine.install(ROOT, location=at, projects="true")
            slug = "".join(char if char.isalnum() else "-" for char in str(machine.home / "project"))
            own[name] = machine.home / ".claude" / "projects" / slug / "memory"
        at_work["a"].ask("Remember that Ada drinks tea")
        assert str(own["a"]) in json.dumps(server.requests[0].body)
        at_work["b"].ask("What does Ada drink?")
        server.verify()
    assert (own["b"] / "tea.md").read_text() == "Ada drinks tea\n"
    with retentive.open(at) as opened:
        assert [store.key for store in opened.stores()] == ["github.com/ann/app"]


def line_of(entry: str) -> str:
    return f"- [{entry}]({file_of(entry)})"


def file_of(entry: str) -> str:
    return f"{entry.replace(' ', '-')}.md"


def notes_of(machine: Machine) -> dict[str, str]:
    return {path.name: path.read_text() for path in machine.notes.glob("*.md")}


def paths(notes: dict[str, str]) -> dict[str, str]:
    return {f"/memories/{name}": text for name, text in notes.items()}
