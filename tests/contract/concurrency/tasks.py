"""Tasks for concurrent workers, which are threads or processes, and the expected results."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.targets import Target

STORE = "default"
SHARED = "/memories/shared.md"


def prepare(target: Target, workers: int) -> None:
    """Create one memory with a counter line for each worker."""
    text = "".join(f"{counter(worker, 0)}\n" for worker in range(workers))
    answer = target.execute(STORE, {"command": "create", "path": SHARED, "file_text": text})
    assert not answer.is_error, answer.text


def edit(target: Target, worker: int, count: int, *, start: int = 0, path: str = SHARED) -> list[str]:
    """Alternately increment the worker's line with str_replace and add a line with insert. Returns the errors."""
    answers = [target.execute(STORE, _edit(worker, number, path)) for number in range(start, start + count)]
    return [answer.text for answer in answers if answer.is_error]


def expected(workers: int, count: int) -> Counter[str]:
    """Expected lines after the edits of every worker."""
    lines = [counter(worker, (count + 1) // 2) for worker in range(workers)]
    added = [_added(worker, number) for worker in range(workers) for number in range(1, count, 2)]
    return Counter(lines + added)


def lines_of(target: Target, path: str = SHARED) -> Counter[str]:
    return Counter(target.state(STORE).tree[path].splitlines())


def counter(worker: int, value: int) -> str:
    return f"worker {worker} counts {value};"


def create_one(target: Target, worker: int) -> str:
    """Try to create a path that every worker creates, and return the reply."""
    command: dict[str, object] = {
        "command": "create",
        "path": "/memories/one/path.md",
        "file_text": f"by {worker}",
    }
    return target.execute(STORE, command).text


def creation_faults(replies: list[str], target: Target) -> list[str]:
    """Return the problems, unless exactly one worker created the path and all others got the reply that it exists."""
    faults: list[str] = []
    created = [worker for worker, reply in enumerate(replies) if reply.startswith("File created successfully")]
    refused = replies.count("Error: File /memories/one/path.md already exists")
    if len(created) != 1 or refused != len(replies) - 1:
        faults.append(f"{len(created)} created it, {refused} got the reply that it exists: {set(replies)}")
    text = target.state(STORE).tree["/memories/one/path.md"]
    if text not in {f"by {worker}" for worker in created}:
        faults.append(f"the text is {text!r}, created by {created}")
    return faults


def _edit(worker: int, number: int, path: str) -> dict[str, object]:
    if number % 2:
        return {"command": "insert", "path": path, "insert_line": 0, "insert_text": _added(worker, number)}
    old, new = counter(worker, number // 2), counter(worker, number // 2 + 1)
    return {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def _added(worker: int, number: int) -> str:
    return f"worker {worker} adds {number}"
