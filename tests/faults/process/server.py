"""Process that forks once for each case, with the fault library loaded: `python -m faults.process.server`.

Requests are JSON lines on stdin, and answers are JSON lines on stdout. The parent imports all modules, but it never
opens a backend, so a fork copies no connection and no thread.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.oracle import Outcome
from support.targets import RetentiveTarget, Target, compile_patterns, disk_faults, extra_names, open_target, url_of

from .cases import COLD, COMMANDS, LAST, LATER, WHOLE, Case, Seen, judge, prepared
from .injector import Injector

TIMEOUT_S = 30.0
STORE = "default"
WARM = ("anthropic.lib.tools", "retentive.storage.files.backend", "support.places")
Tell = Callable[..., None]


@dataclass
class Child:
    """Output of a forked process, the log of its calls, and whether it hung."""

    lines: list[dict[str, object]]
    log: str
    hung: bool


def main() -> None:
    """Answer requests until stdin closes."""
    for module in WARM:
        importlib.import_module(module)
    compile_patterns()
    gc.freeze()  # a garbage collection in a child would copy the pages shared with the parent
    for line in sys.stdin:
        request = json.loads(line)
        answer = prepare(**request["prepare"]) if "prepare" in request else run(**request["run"])
        print(json.dumps(answer), flush=True)


def prepare(backend: str, step: str, directory: str) -> dict[str, object]:
    """Create the store of a step. A process either closes it properly or is killed."""
    place = Path(directory)
    crashed = prepared(step) != prepared("create")

    def work(tell: Tell, log_fd: int) -> None:
        target = open_target(url_of(backend, place))
        for command in prepared(step):
            answer = target.execute(STORE, command)
            assert not answer.is_error, answer.text
        if not crashed:
            target.close()

    child = fork(work)
    names = sorted(extra_names(place))
    return {"problems": [line["raised"] for line in child.lines if "raised" in line], "names": names}


def run(case: dict[str, object], store: str, names: list[str], clean_reply: str | None) -> dict[str, object]:
    """Run one case in a new copy of a prepared store, and return its calls, its reply and its problems."""
    one = Case(**case)  # type: ignore[arg-type]  # the fields of a Case, as JSON
    place = Path(f"{store}-under-fault")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(store, place)
    child = fork(lambda tell, log_fd: under_fault(one, place, tell, log_fd))
    seen = seen_of(child)
    checked = fork(lambda tell, log_fd: check(one, place, seen, clean_reply, tell))
    said = [line["problems"] for line in checked.lines if "problems" in line]
    raised = [f"the check: {line['raised']}" for line in checked.lines if "raised" in line]
    problems: list[object] = [
        *(said[0] if said and isinstance(said[0], list) else ["the store cannot be checked"]),
        *raised,
    ]
    problems += [f"left behind: {name}" for name in sorted(extra_names(place) - set(names))]
    if child.hung or checked.hung:
        problems.append("hangs")
    return {"log": child.log, "reply": seen.reply, "is_error": seen.is_error, "problems": problems}


def under_fault(case: Case, place: Path, tell: Tell, log_fd: int) -> None:
    """Run the step of the case with its fault, in the forked process."""
    injector = Injector()
    whole = case.step in WHOLE
    target: Target | None = None
    if not whole:
        target = open_warm(case, place)
    tell(opened=not whole)
    injector.arm(place, fault=case.fault, number=case.number, log_fd=log_fd)
    if whole:
        target = open_or_tell(case, place, tell)
    if target is None:
        return
    answer = target.execute(STORE, COMMANDS[case.step])
    tell(reply=answer.text, is_error=answer.is_error)
    if case.ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if whole:
        target.close()
        injector.disarm()
        return
    injector.disarm()
    now = target.state(STORE)
    tell(now=[now.tree, list(now.versions.items())])
    later = target.execute(STORE, LATER)
    tell(later_ok=not later.is_error)
    target.close()


def open_warm(case: Case, place: Path) -> Target:
    """Open the backend and, unless the step is cold, read all files.

    The files are a copy, so their inodes and times differ from the recorded ones.
    """
    target = open_target(url_of(case.backend, place))
    if isinstance(target, RetentiveTarget):
        target.store(STORE)
    if case.step in COLD:
        return target
    target.execute(STORE, {"command": "view", "path": "/memories"})
    target.state(STORE)
    return target


def open_or_tell(case: Case, place: Path, tell: Tell) -> Target | None:
    """Open the backend, or return None if the fault made the opening fail with one of our errors."""
    from retentive import RetentiveError

    try:
        target = open_target(url_of(case.backend, place))
        if isinstance(target, RetentiveTarget):
            target.store(STORE)
    except RetentiveError:
        return None
    tell(opened=True)
    return target


def check(case: Case, place: Path, seen: Seen, clean_reply: str | None, tell: Tell) -> None:
    """Open the store in a new process, without any manual repair, and check it."""
    target = open_target(url_of(case.backend, place))
    target.execute(STORE, {"command": "view", "path": "/memories"})
    after = target.state(STORE)
    problems = judge(case, seen, after, str(place), clean_reply)
    problems += disk_faults(case.backend, place, {STORE: after.tree})
    answer = target.execute(STORE, LAST)
    if answer.is_error:
        problems.append(f"the next command fails: {answer.text!r}")
    target.close()
    tell(problems=problems)


def seen_of(child: Child) -> Seen:
    """Return the results that a process reported in its output lines before it ended."""
    seen = Seen()
    for line in child.lines:
        match line:
            case {"opened": bool(opened)}:
                seen.opened = opened
            case {"reply": str(reply), "is_error": bool(is_error)}:
                seen.reply, seen.is_error = reply, is_error
            case {"later_ok": bool(later_ok)}:
                seen.later_ok = later_ok
            case {"now": [dict(tree), list(versions)]}:
                seen.now = Outcome(tree)
                seen.now.versions.update({tuple(key): count for key, count in versions})
            case {"raised": str(raised)}:
                seen.raised.append(raised)
    return seen


def fork(work: Callable[[Tell, int], None]) -> Child:
    """Run a function in a forked process and collect its output. An exception is reported as `raised`."""
    out, into = os.pipe()
    log_out, log_into = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_child(work, into, log_into)
    os.close(into)
    os.close(log_into)
    texts, hung = _read_all([out, log_out], time.monotonic() + TIMEOUT_S)
    if hung:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return Child([json.loads(line) for line in texts[out].splitlines()], texts[log_out], hung)


def _be_child(work: Callable[[Tell, int], None], into: int, log_fd: int) -> None:
    def tell(**said: object) -> None:
        data = json.dumps(said).encode() + b"\n"
        while data:
            data = data[os.write(into, data) :]

    try:
        work(tell, log_fd)
    except BaseException as error:  # report the bug; the child must not continue as a second server
        tell(raised=f"{type(error).__module__}.{type(error).__qualname__}: {error}{_where(error)}")
    finally:
        os._exit(0)


def _where(error: BaseException) -> str:
    """Return the file and line of the innermost frame of an exception."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""


def _read_all(pipes: list[int], deadline: float) -> tuple[dict[int, str], bool]:
    data = dict.fromkeys(pipes, b"")
    waiting = set(pipes)
    while waiting:
        ready = select.select(list(waiting), [], [], max(0.0, deadline - time.monotonic()))[0]
        if not ready:
            break
        for pipe in ready:
            chunk = os.read(pipe, 1 << 16)
            data[pipe] += chunk
            if not chunk:
                waiting.discard(pipe)
    for pipe in pipes:
        os.close(pipe)
    return {pipe: text.decode(errors="replace") for pipe, text in data.items()}, bool(waiting)


if __name__ == "__main__":
    main()
