"""Why a history is not linearizable, for a person: the few commands that cannot be put in an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laws.model import Model

from .checker import Alike, Failure, Operation, Search, State, exactly, find_failure, touched

BAR = 40  # characters for the time from the first call to the last return
SHOWN_REPLIES = 3
EARLIER = 4  # changes shown that came before


def why_not(history: Sequence[Operation], *, alike: Alike = exactly) -> str:
    """Nothing if the history is linearizable; else the commands that no order explains, one below the other in time."""
    failure = find_failure(history, alike=alike)
    return explain(shortest(failure, alike=alike), history) if failure else ""


def shortest(failure: Failure, *, alike: Alike = exactly) -> Failure:
    """The same failure without the views and refused commands that it does not need."""
    kept = failure
    for operation in failure.operations:
        if not operation.harmless or operation not in kept.operations:
            continue
        fewer = [each for each in kept.operations if each is not operation]
        kept = Search(fewer, start=kept.state, alike=alike).run() or kept
    # What was called only after the last reply has no part in it.
    ends = kept.last.returned
    return replace(kept, operations=[each for each in kept.operations if each.called <= ends])


def explain(failure: Failure, history: Sequence[Operation]) -> str:
    """The failure as a page: what was there, what was done when, and what should have been answered."""
    operations = sorted(failure.operations, key=lambda each: each.called)
    names = frozenset[str]().union(*(touched(each.command) for each in operations))
    start = min(each.called for each in operations)
    earlier = [each for each in changes(history) if each.returned < start and touched(each.command) & names]
    lines = ["Not linearizable: no order of these commands explains the reply of the one marked >."]
    lines += ["The memories they touch can only have been, before:", *_memories(failure.state, names)]
    if earlier:
        lines += ["after, among others:", *table(earlier[-EARLIER:], None)]
    lines += ["Then (times in microseconds):", *table(operations, failure.last)]
    return "\n".join([*lines, "It should have been answered:", *_expected(failure)])


def changes(history: Sequence[Operation]) -> list[Operation]:
    """What changed something, as it was answered, in the order of the replies."""
    known = [each for each in history if each.known and not each.harmless]
    return sorted(known, key=lambda each: each.returned)


def table(operations: Sequence[Operation], last: Operation | None) -> list[str]:
    """A row for each operation: client, time, a bar, command and reply."""
    start = min(each.called for each in operations)
    ends = [each.returned for each in operations if each.known]
    end = last.returned if last else max(ends, default=start + 1)
    return [row for each in operations for row in _rows(each, start, end, mark=">" if each is last else " ")]


def _rows(operation: Operation, start: int, end: int, *, mark: str) -> list[str]:
    known = operation.known
    until = f"{(operation.returned - start) // 1_000:>8}" if known else "       ?"
    head = f"{mark} {operation.client:<6}{(operation.called - start) // 1_000:>8}{until}  {_bar(operation, start, end)}"
    reply = repr(operation.answer.text) if operation.answer else "no reply"
    return [f"{head}  {_words(operation)}", f"{' ' * len(head)}    -> {reply}"]


def _bar(operation: Operation, start: int, end: int) -> str:
    scale = (BAR - 1) / max(end - start, 1)
    first = int((operation.called - start) * scale)
    last = int((min(operation.returned, end) - start) * scale) if operation.known else BAR - 1
    closed = operation.known and operation.returned <= end
    bar = "|" + "-" * (last - first)
    return (" " * first + (bar[:-1] + "|" if closed else bar[:-1] + ">")).ljust(BAR)[:BAR]


def _words(operation: Operation) -> str:
    values = [repr(value) for key, value in operation.command.items() if key != "command"]
    return " ".join([str(operation.command.get("command")), *values])


def _memories(state: State, names: frozenset[str]) -> list[str]:
    rows = [f"  {path}  {text!r}" for path, text in state if "" in names or path.split("/")[2] in names]
    return rows or ["  (none)"]


def _expected(failure: Failure) -> list[str]:
    """What the model would have answered, in the states that could be reached."""
    answers = [Model(tree=dict(state)).execute(failure.last.command) for state in failure.reached]
    texts = list(dict.fromkeys(repr(answer.text) if answer.text else f"{answer.start}..." for answer in answers))
    more = [f"  or one of {len(texts) - SHOWN_REPLIES} more"] if len(texts) > SHOWN_REPLIES else []
    return [f"  {text}" for text in texts[:SHOWN_REPLIES]] + more
