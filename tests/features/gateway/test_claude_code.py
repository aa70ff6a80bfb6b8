"""Unmodified Claude Code through the gateway: print mode and interactive, on two machines with one store."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from features.plugin.claude_code import CLAUDE, Machine
from retentive.testing.scripted_claude import Call, Prompt, Thinking
from support.profiles import REQUIRED
from support.waiting import until

from .gateways import NOTES, Place, gateway, results

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not REQUIRED and not CLAUDE.exists(), reason="RETENTIVE_NODE_MODULES does not name a folder with Claude Code"
    ),
]
CREATE = {"command": "create", "path": NOTES, "file_text": "likes tea\n"}
VIEW = {"command": "view", "path": NOTES}


def model(prompt: Prompt) -> Any:
    """Remember, beside a command of Claude Code; later look it up. Fails if the model's own calls were changed."""
    if "memory" not in prompt.tool_names:
        return "ok"
    asked = [message.text for message in prompt.messages if message.role == "user" and message.text.strip()][-1]
    calls = [call for call in prompt.calls if call.name == "memory"]
    assert all(call.input in (CREATE, VIEW) for call in calls), calls
    if "REMEMBER" in asked:
        if not calls:
            return Thinking("This is worth a note."), Call(CREATE)
        if len(calls) == 1:
            return "I check it. ", Call(VIEW), Call({"command": "echo own"}, None, "Bash")
        assert [call.result.text for call in prompt.calls if call.name == "Bash" and call.result] == ["own"]
        return "Saved."
    if "view" not in [call.input["command"] for call in calls[-1:]] or "RECALL" in prompt.messages[-1].text:
        return Call(VIEW)
    return f"You told me: {results(prompt)[-1].splitlines()[-1]}"


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[str, Place], Machine]:
    def make(name: str, place: Place) -> Machine:
        class Configured(Machine):
            @property
            def environment(self) -> dict[str, str]:
                return super().environment | {"ANTHROPIC_CUSTOM_HEADERS": f"x-retentive-key: {place.key}"}

        made = Configured(tmp_path / name, place.url)
        made.set_up()
        return made

    return make


def sessions(place: Place) -> set[str]:
    return {str(change.actor) for change in place.store.history.changes(NOTES)}


def test_print_mode_on_two_machines(tmp_path: Path, machine: Callable[[str, Place], Machine]) -> None:
    with gateway(model, f"sqlite:///{tmp_path}/memory.db", mode="added") as place:
        first = machine("one", place).ask("REMEMBER that I like tea")
        assert first["result"].endswith("Saved."), first
        assert place.store.read(NOTES) == "likes tea\n"
        with machine("two", place).conversation() as ask:
            assert "likes tea" in ask("RECALL what I like")["result"]
            assert "likes tea" in ask("RECALL it once more")["result"]
        (actor,) = sessions(place)
        assert re.fullmatch(r"session:[0-9a-f-]{36}", actor)
        assert not place.claude.failures
        assert {exchange.status for exchange in place.claude.requests} == {200}


def test_interactive(tmp_path: Path, machine: Callable[[str, Place], Machine]) -> None:
    """In a terminal, which tmux gives."""
    with gateway(model, f"sqlite:///{tmp_path}/memory.db", mode="added") as place:
        one = machine("one", place)
        project = {str(one.home / "project"): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
        seen = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["none-needed"]}}
        (one.home / ".claude.json").write_text(json.dumps({**seen, "projects": project}))
        socket = str(tmp_path / "tmux")

        def tmux(*words: str) -> str:
            command = ["tmux", "-S", socket, "-f", "/dev/null", *words]
            return subprocess.run(
                command,
                env=one.environment | {"TERM": "xterm-256color", "SHELL": "/bin/sh"},
                capture_output=True,
                text=True,
                check=True,
            ).stdout

        tmux("new-session", "-d", "-x", "150", "-y", "50", "-c", str(one.home / "project"), str(CLAUDE))
        try:

            def shows(text: str) -> bool:
                return text in tmux("capture-pane", "-p", "-t", "0")

            until(lambda: shows("shift+tab"))
            for prompt, answer in (("REMEMBER that I like tea", "Saved."), ("RECALL what I like", "You told me")):
                tmux("send-keys", "-t", "0", prompt, "Enter")
                until(partial(shows, answer))
        finally:
            tmux("kill-server")
        assert place.store.read(NOTES) == "likes tea\n"
        assert not place.claude.failures
