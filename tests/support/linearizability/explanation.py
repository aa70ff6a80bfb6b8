"""Readable explanation of a failure: the few commands that have no valid order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from support.model import Model

from .checker import Alike, Failure, Operation, Search, State, exactly, find_failure, touched

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
    before = sorted((each for each in failure.before if _concerns(each, names)), key=lambda each: each.returned)
    before = [each for kind in (False, True) for each in [one for one in before if one.harmless is kind][-EARLIER:]]
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


def _concerns(operation: Operation, names: frozenset[str]) -> bool:
    """Return whether the operation changed or viewed a memory below these names."""
    refused = operation.known and operation.answer is not None and operation.answer.is_error
    near = touched(operation.command)
    return bool(near & names or "" in near | names) and (operation.command.get("command") == "view" or not refused)


def _table(before: Sequence[Operation], failure: Failure) -> Iterator[str]:
    """Yield two lines for each operation: client, call, return and the command, and then the reply."""
    operations = [*sorted(before, key=_called), *sorted(failure.operations, key=_called)]
    start = min(map(_called, operations))
    for each in operations:
        mark = ">" if each is failure.last else "=" if each in before else " "
        called, returned = ((moment - start) // 1_000 for moment in (each.called, each.returned))
        until = f"{returned:>8}" if each.known else "       ?"
        values = [repr(value) for key, value in each.command.items() if key != "command"]
        yield " ".join([f"{mark} {each.client:<6}{called:>8}{until} ", str(each.command.get("command")), *values])
        yield f"{' ' * REPLY_INDENT}-> {repr(each.answer.text) if each.answer else 'no reply'}"


def _called(operation: Operation) -> int:
    return operation.called


def _memories(state: State, names: frozenset[str]) -> list[str]:
    rows = [f"  {path}  {text!r}" for path, text in state if "" in names or path.split("/")[2] in names]
    return rows or ["  (none)"]


def _expected(failure: Failure) -> list[str]:
    """Return the replies of the model in the reachable states."""
    answers = [Model(tree=dict(state)).execute(failure.last.command) for state in failure.reached]
    texts = list(dict.fromkeys(repr(answer.text) if answer.text else f"{answer.start}..." for answer in answers))
    more = [f"  or one of {len(texts) - SHOWN_REPLIES} more"] if len(texts) > SHOWN_REPLIES else []
    return [f"  {text}" for text in texts[:SHOWN_REPLIES]] + more
