"""A process of a system, in an environment made once in the user's cache directory from the package registries.

Requests and answers are lines of JSON. The times are taken in the process, around the calls of the system, so that the
exchange of lines costs no system anything.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Thread
from time import perf_counter_ns
from typing import Any

from workloads.systems import SYSTEMS, Store, System

BENCHMARKS = Path(__file__).resolve().parents[1]
MOST_CONFLICTS, INSTALL_S = 200, 900
# No system may call a service: mem0 has a client for OpenAI that it does not use without inference.
QUIET = {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "unused", "ANONYMIZED_TELEMETRY": "False", "HF_HUB_OFFLINE": "1"}
Operation = list[Any]
"""A kind and its arguments, as JSON has them."""
Turn = list[list[Operation]]
"""Operations that run at the same time, a list for each caller."""
Outcome = tuple[int, Any, str]
"""Nanoseconds of an operation, its answer, and the error if it was not acknowledged."""


class Unavailable(Exception):
    """A system cannot run here; the message says why."""


class Failed(Exception):
    """A request that a process did not answer as it should."""


def installed(system: System) -> tuple[str, str]:
    """Python that runs a system, and its folder of node modules. Installs it at the first use."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retentive-benchmarks"
    home = cache / re.split("[<>=]", system.packages[0] if system.packages else system.npm.rpartition("/")[2])[0]
    done = home / "installed"
    python = str(home / "bin" / "python") if system.packages else sys.executable
    if done.exists() or not (system.packages or system.npm):
        return python, str(home)
    shutil.rmtree(home, ignore_errors=True)
    steps = [["npm", "install", "--silent", "--no-save", "--prefix", str(home), system.npm]] if system.npm else []
    if system.packages:
        base = sys.executable
        if sys.version_info[:2] < system.python:
            names = [f"python{system.python[0]}.{system.python[1] + more}" for more in range(4)]
            base = next((found for name in names if (found := shutil.which(name))), "")
        if not base:
            raise Unavailable(f"needs Python {system.python[0]}.{system.python[1]} or newer, and none was found")
        steps += [[base, "-m", "venv", str(home)], [python, "-m", "pip", "install", "--quiet", *system.packages]]
    for step in steps:
        if shutil.which(step[0]) is None:
            raise Unavailable(f"{step[0]} is not installed")
        print(f"{system.name}: {' '.join(step[1:])}", file=sys.stderr)
        ended = subprocess.run(step, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        if ended.returncode:
            raise Unavailable(f"does not install: {ended.stderr.strip().splitlines()[-1:]}")
    done.touch()
    return python, str(home)


class Process:
    """One process, which has at most one store open. What the system prints goes to a log in the folder."""

    def __init__(self, system: System, folder: Path) -> None:
        python, home = installed(system)
        # A peer sees no packages of this project, and no configuration of the user.
        paths = [str(BENCHMARKS), *([] if system.packages else os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        own = {"HOME": str(folder), "MEM0_DIR": str(folder / "mem0")} if system.packages else {}
        environment = os.environ | QUIET | own | {"PYTHONPATH": os.pathsep.join(paths), "WORKLOADS_NPM": home}
        command, pipe = [python, "-m", "workloads.process", system.name], subprocess.PIPE
        with (folder / "log").open("a", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=errors, text=True, encoding="utf-8", env=environment
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def open(self, folder: Path, address: str) -> None:
        """Open the store in a folder."""
        self._ask("open", str(folder), address)

    def fill(self, notes: dict[str, str]) -> None:
        """Add the first notes."""
        self._ask("fill", notes)

    def run(self, turn: Turn, limit_s: float) -> tuple[int, list[list[Outcome]]]:
        """Run one turn: the elapsed time in nanoseconds, and the outcomes of each caller."""
        span, done = self._ask("run", turn, limit_s)
        return span, done

    def read(self, keys: list[str]) -> tuple[list[str], dict[str, str | None]]:
        """Return the keys of all notes, and the texts of those asked for."""
        names, texts = self._ask("read", keys)
        return names, texts

    def close(self) -> None:
        """Close the store, not the process."""
        self._ask("close")

    def _ask(self, *request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise Failed("the process ended") from None
        line = self._process.stdout.readline()
        if not line:
            raise Failed("the process ended")
        answer, error = json.loads(line)
        if error:
            raise Failed(error[:300])
        return answer


def execute(store: Store, operation: Operation) -> object:
    """Answer of one operation."""
    match operation:
        case ["session", [*keys]]:
            return [store.names(), [store.read(key) for key in keys]]
        case ["read", key]:
            return store.read(key)
        case ["create", key, text]:
            store.create(key, text)
        case ["append", key, line]:
            store.append(key, line)
        case ["replace", key, text]:
            store.replace(key, text)
        case ["amend", key, line]:  # below the first line; again after a conflict
            for _ in range(MOST_CONFLICTS):
                if store.amend(key, lambda text: text.replace("\n", f"\n{line}\n", 1)):
                    return None
            raise TimeoutError(f"{MOST_CONFLICTS:,} conflicts")
        case _:
            raise ValueError(f"unknown operation: {operation[0]}")
    return None


def run(store: Store, turn: Turn, limit_s: float) -> tuple[int, list[list[Outcome]]]:
    """Run the operations of each caller in a thread. A caller ends early once the limit has passed."""
    done: list[list[Outcome]] = [[] for _ in turn]
    os.sync()  # no system pays for the writes of another
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
                error = f"{type(raised).__name__}: {raised}"[:300]
            done[number].append((perf_counter_ns() - begun, answer, error))

    threads = [Thread(target=caller, args=(number,)) for number in range(len(turn))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return perf_counter_ns() - start, done


def main() -> None:
    """Serve on standard input and output. What a system prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    system = next(each for each in SYSTEMS if each.name == sys.argv[1])
    store: Any = None
    for line in sys.stdin:
        kind, *given = json.loads(line)
        answer: object = None
        error = ""
        try:
            if kind == "open":
                store = system.store(system.name, *given)
            elif kind == "fill":
                for key, text in given[0].items():
                    store.create(key, text)
            elif kind == "run":
                answer = run(store, *given)
            elif kind == "read":
                answer = store.names(), {key: store.read(key) for key in given[0]}
            else:
                store = store.close()
                gc.collect()
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        print(json.dumps([answer, error]), file=answers, flush=True)


if __name__ == "__main__":
    main()
