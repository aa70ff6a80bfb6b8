"""Readable explanation of a failure: the few commands that have no valid order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from support.model import Model

from .checker import Alike, Failure, Operation, Search, State, exactly, find_failure, touched

BAR = 40  # width of the time axis in characters
REPLY_INDENT = 12
SHOWN_REPLIES = 3
EARLIER = 3  # number of earlier changes to show, and of earlier views


def why_not(history: Sequence[Operation], *, alike: Alike = exactly) -> str:
    """Return an explanation, or an empty text if the history is linearizable."""
    failure = find_failure(history, alike=alike)
    return explain(shortest(failure, alike=alike)) if failure else ""


def shortest(failure: Failure, *, alike: Alike = exactly) -> Failure:
    """Remove each view and rejected command without which the failure remains."""
    kept = failure
    for operation in failure.operations:
        if not operation.harmless or operation not in kept.operations:
            continue
        fewer = [each for each in kept.operations if each is not operation]
        again = Search(fewer, start=kept.state, alike=alike).run()
        kept = replace(again, before=[*kept.before, *again.before]) if again else kept
    return kept


def explain(failure: Failure) -> str:
    """Format the failure: the state before it, the commands in time order, and the expected replies."""
    names = frozenset[str]().union(*(touched(each.command) for each in failure.operations))
    before = [each for each in failure.before if _concerns(each, names)]
    before = _last_changes(before) + _last_views(before)
    return "\n".join(
        [
            "Not linearizable: no order of these commands explains the reply of the one marked >.",
            *(["Those marked = took effect before (the last ones; times in microseconds)."] if before else []),
            "Of the memories they touch, there can only have been then:",
            *_memories(failure.state, names),
            *_table(before, failure),
            "It should have been answered:",
            *_expected(failure),
        ]
    )


def _last_changes(before: Sequence[Operation]) -> list[Operation]:
    return sorted((each for each in before if not each.harmless), key=lambda each: each.returned)[-EARLIER:]


def _last_views(before: Sequence[Operation]) -> list[Operation]:
    return sorted((each for each in before if each.harmless), key=lambda each: each.returned)[-EARLIER:]


def _concerns(operation: Operation, names: frozenset[str]) -> bool:
    """Return whether the operation changed or viewed a memory below these names."""
    refused = operation.known and operation.answer is not None and operation.answer.is_error
    near = touched(operation.command)
    return bool(near & names or "" in near | names) and (operation.command.get("command") == "view" or not refused)


def _table(before: Sequence[Operation], failure: Failure) -> list[str]:
    """Format each operation as two lines: client, call, return, a bar and the command, and then the reply."""
    operations = [*sorted(before, key=_called), *sorted(failure.operations, key=_called)]
    start = min(map(_called, operations))
    marks = [">" if each is failure.last else "=" if each in before else " " for each in operations]
    rows = [_rows(each, start, failure.last.returned, mark=mark) for each, mark in zip(operations, marks, strict=True)]
    return [row for pair in rows for row in pair]


def _called(operation: Operation) -> int:
    return operation.called


def _rows(operation: Operation, start: int, end: int, *, mark: str) -> list[str]:
    known = operation.known
    until = f"{(operation.returned - start) // 1_000:>8}" if known else "       ?"
    head = f"{mark} {operation.client:<6}{(operation.called - start) // 1_000:>8}{until}  {_bar(operation, start, end)}"
    reply = repr(operation.answer.text) if operation.answer else "no reply"
    return [f"{head}  {_words(operation)}", f"{' ' * REPLY_INDENT}-> {reply}"]


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
    """Return the replies of the model in the reachable states."""
    answers = [Model(tree=dict(state)).execute(failure.last.command) for state in failure.reached]
    texts = list(dict.fromkeys(repr(answer.text) if answer.text else f"{answer.start}..." for answer in answers))
    more = [f"  or one of {len(texts) - SHOWN_REPLIES} more"] if len(texts) > SHOWN_REPLIES else []
    return [f"  {text}" for text in texts[:SHOWN_REPLIES]] + more
