"""Process of one system, in the environment where that system is installed. Requests and answers are lines of JSON.

    python -m workloads.worker ADAPTER

The times are taken here, around the calls of the adapter, so that the exchange of lines costs no system anything.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from threading import Thread
from time import perf_counter_ns
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workloads.adapters.base import Store

MOST_CONFLICTS = 200


def execute(store: Store, operation: Sequence[object]) -> object:
    """Answer of one operation."""
    match operation:
        case ["session", [*keys]]:
            return [store.names(), [store.read(str(key)) for key in keys]]
        case ["browse", [*pages]]:
            return [store.names(), [_page(store, page) for page in pages]]
        case ["read", str(key)]:
            return store.read(key)
        case ["create", str(key), str(text)]:
            store.create(key, text)
        case ["append", str(key), str(line)]:
            store.append(key, line)
        case ["replace", str(key), str(text)]:
            store.replace(key, text)
        case ["rename", str(old), str(new)]:
            store.rename(old, new)
        case ["delete", str(key)]:
            store.delete(key)
        case ["amend", str(key), str(line)]:
            amend(store, key, line)
        case _:
            raise ValueError(f"unknown operation: {operation[0]}")
    return None


def _page(store: Store, page: object) -> list[str]:
    match page:
        case [str(key), int(first), int(last)]:
            return store.page(key, first, last)
    raise ValueError(f"not a page: {page}")


def amend(store: Store, key: str, line: str) -> None:
    """Add a line after the first line of a note. Starts again after a conflict."""

    def change(text: str) -> str:
        head, _, rest = text.partition("\n")
        return f"{head}\n{line}\n{rest}"

    for _ in range(MOST_CONFLICTS):
        if store.amend(key, change):
            return
    raise TimeoutError(f"{MOST_CONFLICTS:,} conflicts")


def run(store: Store, turn: Sequence[Sequence[Sequence[object]]], limit_s: float) -> dict[str, object]:
    """Run the operations of each caller in a thread. A caller ends early once the limit has passed."""
    done: list[list[list[object]]] = [[] for _ in turn]
    start = perf_counter_ns()

    def caller(number: int) -> None:
        for operation in turn[number]:
            begun = perf_counter_ns()
            if begun - start > limit_s * 1e9 and done[number]:
                return
            answer, error = None, ""
            try:
                answer = execute(store, operation)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"[:300] or "error"
            done[number].append([perf_counter_ns() - begun, answer, error])

    if len(turn) == 1:
        caller(0)
    else:
        threads = [Thread(target=caller, args=(number,)) for number in range(len(turn))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {"span_ns": perf_counter_ns() - start, "done": done}


def serve(adapter: str, requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more."""
    module = importlib.import_module(f"workloads.adapters.{adapter}")
    store: Store | None = None
    for line in requests:
        request = json.loads(line)
        answer: object = None
        try:
            if request["do"] == "open":
                store = module.open_store(request["system"], request["folder"], request["address"])
            elif request["do"] == "close":
                assert store is not None
                store.close()
                store = None
                gc.collect()  # AgentFS keeps the lock of its file until its objects are collected
            else:
                assert store is not None
                answer = _answered(store, request)
        except Exception as raised:
            answer = {"error": f"{type(raised).__name__}: {raised}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answered(store: Store, request: dict[str, object]) -> object:
    match request:
        case {"do": "fill", "notes": dict(notes)}:
            store.fill(notes)
        case {"do": "run", "turn": list(turn), "limit_s": float(limit_s)}:
            os.sync()  # no system pays for the writes of another
            return run(store, turn, limit_s)
        case {"do": "read", "keys": list(keys)}:
            return {"names": store.names(), "texts": {key: store.read(key) for key in keys}}
    return None


def main() -> None:
    """Serve on standard input and output. What a system prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.argv[1], sys.stdin, answers)


if __name__ == "__main__":
    main()
