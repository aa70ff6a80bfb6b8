"""Steps that run under a fault, the store they run in, and the check of the state after the fault."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from support.oracle import Command, Outcome, differs, following
from support.targets import CONTROL, UNKNOWN

SMALL = "".join(f"line {n} of a note\n" for n in range(1, 11))
LARGE = "".join(f"line {n} of a long memory, {n * 7919:08x}\n" for n in range(1, 1_500))  # about 60 KB

SEEDS: list[Command] = [
    {"command": "create", "path": "/memories/a.md", "file_text": SMALL},
    {"command": "create", "path": "/memories/large.md", "file_text": LARGE},
    {"command": "create", "path": "/memories/notes/one.md", "file_text": "one\n"},
    {"command": "create", "path": "/memories/notes/two.md", "file_text": ""},
    {"command": "create", "path": "/memories/notes/deep/three.md", "file_text": SMALL * 100},
    {"command": "str_replace", "path": "/memories/notes/one.md", "old_str": "one", "new_str": "one, edited"},
]

# The process was killed right after these replies; the next process opens the store.
UNFINISHED: list[Command] = [
    {"command": "create", "path": "/memories/left/new.md", "file_text": SMALL},
    {"command": "rename", "old_path": "/memories/notes/deep", "new_path": "/memories/kept"},
    {"command": "delete", "path": "/memories/notes/two.md"},
    {"command": "insert", "path": "/memories/a.md", "insert_line": 0, "insert_text": "first"},
]

COMMANDS: dict[str, Command] = {
    "view a memory": {"command": "view", "path": "/memories/a.md"},
    "view a directory": {"command": "view", "path": "/memories"},
    "create": {"command": "create", "path": "/memories/new/dir/x.md", "file_text": SMALL},
    "create large": {"command": "create", "path": "/memories/new.md", "file_text": LARGE},
    "str_replace": {
        "command": "str_replace",
        "path": "/memories/a.md",
        "old_str": "line 5",
        "new_str": "LINE 5",
    },
    "str_replace large": {
        "command": "str_replace",
        "path": "/memories/large.md",
        "old_str": "line 700 ",
        "new_str": "LINE 700 ",
    },
    "insert": {"command": "insert", "path": "/memories/a.md", "insert_line": 3, "insert_text": "inserted"},
    "delete": {"command": "delete", "path": "/memories/a.md"},
    "delete a directory": {"command": "delete", "path": "/memories/notes"},
    "rename": {"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/moved/to/b.md"},
    "rename a directory": {
        "command": "rename",
        "old_path": "/memories/notes",
        "new_path": "/memories/archive/notes",
    },
    # The backend has not read any file yet, so the step has to read and verify the files.
    "view a memory, cold": {"command": "view", "path": "/memories/a.md"},
    "view a directory, cold": {"command": "view", "path": "/memories"},
    "str_replace, cold": {"command": "str_replace", "path": "/memories/a.md", "old_str": "line 5", "new_str": "5"},
    "rename a directory, cold": {"command": "rename", "old_path": "/memories/notes", "new_path": "/memories/z"},
    # These steps include opening and closing the backend.
    "open, create, close": {"command": "create", "path": "/memories/new/dir/x.md", "file_text": SMALL},
    "recover, create, close": {"command": "create", "path": "/memories/new/dir/x.md", "file_text": SMALL},
}
# Faults can occur from before the opening until after the closing.
WHOLE = ("open, create, close", "recover, create, close")
COLD = tuple(step for step in COMMANDS if step.endswith("cold"))  # faults can occur right after the opening
CRASHED = ("recover, create, close",)  # steps that run on the store of a killed process

LATER: Command = {"command": "create", "path": "/memories/later.md", "file_text": "still works\n"}
LAST: Command = {
    "command": "str_replace",
    "path": "/memories/large.md",
    "old_str": "line 9 ",
    "new_str": "LINE 9 ",
}


@dataclass(frozen=True)
class Case:
    """One step with one fault at one call.

    `ending` says whether the process is killed after its reply or closes the store.
    """

    backend: str
    step: str
    fault: str = "count"
    number: int = 0
    ending: str = "close"

    def __str__(self) -> str:
        return f"{self.backend}: {self.step!r}, {self.fault} at call {self.number}, then {self.ending}"


@dataclass
class Seen:
    """Results that a process under fault reported before it ended."""

    opened: bool = False
    reply: str | None = None
    is_error: bool = False
    later_ok: bool = False  # success of a second command, by the same process after the fault
    now: Outcome | None = None  # state of the store that the same process saw after the fault
    raised: list[str] = field(default_factory=list)


def prepared(step: str) -> list[Command]:
    """Return the commands that created the store of this step."""
    return SEEDS + UNFINISHED if step in CRASHED else SEEDS


def judge(case: Case, seen: Seen, after: Outcome, root: str, clean_reply: str | None) -> list[str]:
    """Return the broken promises, given the state that a new process found after the fault."""
    before = Outcome({})
    for command in prepared(case.step):
        before = following(before, command)
    expected = _allowed(seen, before, following(before, COMMANDS[case.step]))
    if case.backend == CONTROL:
        expected = [Outcome(one.tree) for one in expected]
    problems = list(seen.raised)
    if seen.reply is not None:
        problems += _reply_faults(seen.reply, root)
        if not seen.is_error and clean_reply not in {None, seen.reply}:
            problems.append(f"another reply than without a fault: {seen.reply!r}")
    if seen.now is not None and all(differs(seen.now, one) for one in expected):
        problems.append(f"in the same process: {differs(seen.now, expected[0])}")
    if seen.later_ok:
        expected = [following(one, LATER) for one in expected]
        expected = [Outcome(one.tree) for one in expected] if case.backend == CONTROL else expected
    if all(differs(after, one) for one in expected):
        problems.append(f"after reopening: {differs(after, expected[0])}")
    return problems


def _allowed(seen: Seen, before: Outcome, done: Outcome) -> list[Outcome]:
    """Return the permitted states: with the change, without it, or both if the outcome is unknown."""
    if seen.reply is None:
        return [before, done] if seen.opened else [before]
    if not seen.is_error:
        return [done]
    return [before, done] if UNKNOWN in seen.reply else [before]


def _reply_faults(reply: str, root: str) -> list[str]:
    tells = [word for word in (root, "Traceback", "sqlite", "Errno", ".retentive", "/proc/") if word in reply]
    return [f"the reply tells {word!r}: {reply!r}" for word in tells]


def as_json(case: Case) -> dict[str, object]:
    return asdict(case)
