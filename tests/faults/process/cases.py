"""Steps that run under a fault, the store they run in, and the check of the state after the fault."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from support.commands import create, delete, edit, insert, rename, view
from support.oracle import Command, Outcome, differs, following
from support.targets import CONTROL, UNKNOWN

SMALL = "".join(f"line {n} of a note\n" for n in range(1, 11))
LARGE = "".join(f"line {n} of a long memory, {n * 7919:08x}\n" for n in range(1, 1_500))  # about 60 KB

SEEDS: list[Command] = [
    create("/memories/a.md", SMALL),
    create("/memories/large.md", LARGE),
    create("/memories/notes/one.md", "one\n"),
    create("/memories/notes/two.md", ""),
    create("/memories/notes/deep/three.md", SMALL * 100),
    edit("one", "one, edited", "/memories/notes/one.md"),
]

# The process was killed right after these replies; the next process opens the store.
UNFINISHED: list[Command] = [
    create("/memories/left/new.md", SMALL),
    rename("/memories/notes/deep", "/memories/kept"),
    delete("/memories/notes/two.md"),
    insert(0, "first", "/memories/a.md"),
]

COMMANDS: dict[str, Command] = {
    "view a memory": view("/memories/a.md"),
    "view a directory": view("/memories"),
    "create": create("/memories/new/dir/x.md", SMALL),
    "create large": create("/memories/new.md", LARGE),
    "str_replace": edit("line 5", "LINE 5", "/memories/a.md"),
    "str_replace large": edit("line 700 ", "LINE 700 ", "/memories/large.md"),
    "insert": insert(3, "inserted", "/memories/a.md"),
    "delete": delete("/memories/a.md"),
    "delete a directory": delete("/memories/notes"),
    "rename": rename("/memories/a.md", "/memories/moved/to/b.md"),
    "rename a directory": rename("/memories/notes", "/memories/archive/notes"),
    # The backend has not read any file yet, so the step has to read and verify the files.
    "view a memory, cold": view("/memories/a.md"),
    "view a directory, cold": view("/memories"),
    "str_replace, cold": edit("line 5", "5", "/memories/a.md"),
    "rename a directory, cold": rename("/memories/notes", "/memories/z"),
    # These steps include opening and closing the backend.
    "open, create, close": create("/memories/new/dir/x.md", SMALL),
    "recover, create, close": create("/memories/new/dir/x.md", SMALL),
}
# Faults can occur from before the opening until after the closing.
WHOLE = ("open, create, close", "recover, create, close")
COLD = tuple(step for step in COMMANDS if step.endswith("cold"))  # faults can occur right after the opening
CRASHED = ("recover, create, close",)  # steps that run on the store of a killed process

LATER: Command = create("/memories/later.md", "still works\n")
LAST: Command = edit("line 9 ", "LINE 9 ", "/memories/large.md")


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
