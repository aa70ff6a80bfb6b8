"""The agent program of test_workflow.py: the SDK's tool loop with the memory tool and a file tool.

The program reads one task per line as JSON. It runs each task as a conversation in a forked process, because importing
the SDK takes seconds. The forked process prints its id. If the task names a moment to stop at, such as `edited 12`, the
process prints the moment and waits until it is killed. Otherwise it prints the last text of the conversation. The
parent prints the exit status of the process.

The first line of each file counts the edits of the file and is hidden from the model.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anthropic import Anthropic, beta_tool
from anthropic.lib.tools import ToolError

from retentive import MemoryTool

TRIGGER = 16_000
KEEP = 2
EDITS = {
    "edits": [
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": TRIGGER},
            "keep": {"type": "tool_uses", "value": KEEP},
            "exclude_tools": ["memory"],
        }
    ]
}
Reached = Callable[[str, object], None]


class WatchedMemory(MemoryTool):
    """The memory tool, which reports each change of the recorded progress and can stop there."""

    reached: Reached

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        text = super().call(input)
        found = re.search(r'done="(\d+)" doing="(.*?)"', str(input.get("new_str"))) if isinstance(input, dict) else None
        if found:
            self.reached("doing" if found[2] else "done", found[1])
        return text


def tool_for(directory: Path, reached: Reached) -> Any:
    @beta_tool
    def files(command: str, path: str, old: str = "", new: str = "") -> str:
        """Read a file, or replace text in it.

        Args:
            command: read or replace
            path: the file
            old: the text to replace
            new: what to put there
        """
        number = int(re.sub(r"\D", "", path))
        edits, _, text = (directory / path).read_text("utf-8").partition("\n")
        if command == "read":
            reached("read", number)
            return text
        if text.count(old) != 1:
            raise ToolError(f"{old!r} occurs {text.count(old)} times in {path}")
        unfinished = directory / f".{path}"
        unfinished.write_text(f"{int(edits) + 1}\n{text.replace(old, new)}", "utf-8")
        reached("writing", number)
        unfinished.rename(directory / path)
        reached("edited", number)
        return f"{path} was edited."

    return files


def converse(url: str, files: str, total: int, memory: str | None, stop_at: str | None) -> None:
    """Run a new conversation with the memory that exists."""

    def reached(step: str, number: object) -> None:
        if f"{step} {number}" == stop_at:
            print(stop_at, flush=True)
            signal.pause()

    tools: list[Any] = [tool_for(Path(files), reached)]
    if memory:
        watched = WatchedMemory(memory)
        watched.reached = reached
        tools.append(watched)
    task = f"Swap the two arguments of combine in each of the {total} files module_000.py, module_001.py, ..."
    with Anthropic(base_url=url, api_key="none needed", max_retries=0) as client:
        make: Any = client.beta.messages.tool_runner
        runner = make(
            model="claude-sonnet-5-5",
            max_tokens=1_000,
            messages=[{"role": "user", "content": task}],
            tools=tools,
            betas=["context-management-2025-06-27"],
            context_management=EDITS,
            thread=False,
        )
        print(runner.until_done().content[0].text, flush=True)


def run_forked(arguments: dict[str, Any]) -> int:
    """Run the conversation in a forked process, and return the exit status of the process."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            print(os.getpid(), flush=True)
            converse(**arguments)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        print(run_forked(json.loads(line)), flush=True)
