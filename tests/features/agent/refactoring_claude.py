"""The script of test_workflow.py, which computes the next step from the prompt alone.

The task is to swap the two arguments of `combine` in every file. A file does not show whether it was edited, and a
second edit undoes the first. The script therefore records its progress in the memory before and after each edit. The
record before the edit contains the original call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from retentive.testing.scripted_claude import Call, Prompt, ToolUse

PROGRESS = "/memories/refactoring_progress.xml"
DONE = "All files are done."
_CALL = re.compile(r"combine\((\w+), (\w+)\)")
_TOTAL = re.compile(r"in each of the (\d+) files")
_PROGRESS = re.compile(r'<progress done="(\d+)" doing="([^"]*)"/>')


@dataclass(frozen=True)
class Progress:
    """Number of finished files. `doing` is the original call of the next file if its edit has started."""

    done: int
    doing: str = ""

    def __str__(self) -> str:
        return f'<progress done="{self.done}" doing="{self.doing}"/>'


def answer(prompt: Prompt) -> Call | str:
    """Return the next step."""
    if "memory" not in prompt.tool_names:
        return without_memory(prompt)
    if not prompt.calls:
        return Call({"command": "view", "path": "/memories"})
    last = prompt.calls[-1]
    progress = known_progress(prompt)
    if progress is None:
        return begin(prompt, last)
    if last.name == "memory":
        return continue_work(prompt, last, progress)
    if last.input["command"] == "replace":
        return note(progress, Progress(progress.done + 1))
    return after_reading(last, progress)


def begin(prompt: Prompt, last: ToolUse) -> Call:
    """Return the step after the view of the directory: read the recorded progress, or create the record."""
    if PROGRESS in text_of(last):
        return Call({"command": "view", "path": PROGRESS})
    text = f'<refactoring total="{total(prompt)}">\n  {Progress(0)}\n</refactoring>\n'
    return Call({"command": "create", "path": PROGRESS, "file_text": text})


def continue_work(prompt: Prompt, last: ToolUse, progress: Progress) -> Call | str:
    """Return the step after a memory command: make the edit that was just recorded, or read the next file."""
    if progress.doing and last.input["command"] == "str_replace":
        return replace(progress.done, progress.doing)
    return DONE if progress.done == total(prompt) else read(progress.done)


def after_reading(last: ToolUse, progress: Progress) -> Call:
    """Return the step after reading a file: record the start of its edit, or the end of an interrupted edit."""
    call = call_in(text_of(last))
    if not progress.doing:
        return note(progress, Progress(progress.done, call))
    return replace(progress.done, call) if call == progress.doing else note(progress, Progress(progress.done + 1))


def known_progress(prompt: Prompt) -> Progress | None:
    """Return the progress in the last view or change of the memory."""
    for call in reversed([call for call in prompt.calls if call.name == "memory"]):
        told = str(call.input.get("new_str") or call.input.get("file_text") or text_of(call))
        if found := _PROGRESS.search(told):
            return Progress(int(found[1]), found[2])
    return None


def without_memory(prompt: Prompt) -> Call | str:
    """Return the next step of the same task without a memory, file by file."""
    if not prompt.calls:
        return read(0)
    last = prompt.calls[-1]
    number = int(re.sub(r"\D", "", str(last.input["path"])))
    if last.input["command"] == "read":
        return replace(number, call_in(text_of(last)))
    return DONE if number + 1 == total(prompt) else read(number + 1)


def note(before: Progress, after: Progress) -> Call:
    return Call({"command": "str_replace", "path": PROGRESS, "old_str": str(before), "new_str": str(after)})


def read(number: int) -> Call:
    return Call({"command": "read", "path": path_of(number)}, name="files")


def replace(number: int, call: str) -> Call:
    new = _CALL.sub(r"combine(\2, \1)", call)
    return Call({"command": "replace", "path": path_of(number), "old": call, "new": new}, name="files")


def path_of(number: int) -> str:
    return f"module_{number:03}.py"


def call_in(text: str) -> str:
    found = _CALL.search(text)
    assert found is not None, text
    return found[0]


def total(prompt: Prompt) -> int:
    found = _TOTAL.search(prompt.opening)
    assert found is not None, prompt.opening
    return int(found[1])


def text_of(call: ToolUse) -> str:
    assert call.result is not None
    assert not call.result.is_error, call.result.text
    assert not call.cleared, "a needed result was cleared"
    return call.result.text
