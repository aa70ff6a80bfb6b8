"""The real Claude Code program, with a home directory of its own, against a scripted Messages API.

RETENTIVE_NODE_MODULES names a folder made by `npm install @anthropic-ai/claude-code@2.1.330 @anthropic-ai/mcpb@2.1.2`
with Node 22 or newer: older ones silently install older versions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODULES = Path(os.environ.get("RETENTIVE_NODE_MODULES", ""))
CLAUDE = MODULES / "@anthropic-ai" / "claude-code" / "bin" / "claude.exe"
PLUGIN = "retentive@retentive"
TOOL = "mcp__plugin_retentive_memory__"
"""Prefix of the tools of the plugin."""
DEADLINE_S = 120


@dataclass(frozen=True)
class Machine:
    """A home directory with notes, in which Claude Code runs."""

    home: Path
    api: str

    @property
    def notes(self) -> Path:
        return self.home / "notes"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of Claude Code. It calls only the scripted API, whose URL also turns off its other requests."""
        kept = {name: os.environ[name] for name in ("LANG", "PYTHONPATH") if name in os.environ}
        path = os.pathsep.join([str(Path(sys.executable).parent), str(MODULES / ".bin"), os.environ["PATH"]])
        return kept | {
            "HOME": str(self.home),
            "CLAUDE_CODE_TMPDIR": str(self.home),  # else it leaves directories in /tmp
            "PATH": path,
            "ANTHROPIC_BASE_URL": self.api,
            "ANTHROPIC_API_KEY": "none-needed",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MCP_TIMEOUT": "100000",
            "RETENTIVE_HOOK_WAIT_S": "9",
        }

    def set_up(self) -> None:
        """Create the home directory, and settings that allow what the conversations do."""
        (self.home / "project").mkdir(parents=True)
        self.notes.mkdir()
        (self.home / ".claude").mkdir()
        settings = {
            "autoMemoryDirectory": str(self.notes),
            "permissions": {"allow": ["mcp__plugin_retentive_memory", "Write", "Edit", "Read", "Bash"]},
        }
        (self.home / ".claude" / "settings.json").write_text(json.dumps(settings))

    def claude(self, *arguments: str, given: str = "") -> str:
        """Run Claude Code, and return its output. Fails if it fails."""
        ended = subprocess.run(
            [CLAUDE, *arguments],
            input=given,
            capture_output=True,
            text=True,
            cwd=self.home / "project",
            env=self.environment,
            timeout=DEADLINE_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def install(self, marketplace: Path, **settings: str) -> None:
        """Install the plugin as a user does, and configure it."""
        self.claude("plugin", "marketplace", "add", str(marketplace))
        self.claude("plugin", "install", PLUGIN)
        self.claude("plugin", "configure", PLUGIN, "--values-stdin", given=json.dumps(settings))

    def ask(self, prompt: str, *arguments: str) -> Any:
        """Start a session with one prompt. Returns the result as Claude Code prints it in JSON."""
        return json.loads(self.claude("-p", prompt, "--output-format", "json", *arguments))

    @contextmanager
    def conversation(self) -> Iterator[Callable[[str], Any]]:
        """Start a session of several prompts. The function sends a prompt and returns its result."""
        options = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        with subprocess.Popen(
            [CLAUDE, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self.home / "project",
            env=self.environment,
        ) as process:

            def ask(prompt: str) -> Any:
                assert process.stdin is not None
                assert process.stdout is not None
                content = {"role": "user", "content": prompt}
                process.stdin.write(json.dumps({"type": "user", "message": content}) + "\n")
                process.stdin.flush()
                events = map(json.loads, process.stdout)
                return next(event for event in events if event["type"] == "result")

            try:
                yield ask
                process.communicate(timeout=DEADLINE_S)
            finally:
                process.kill()
