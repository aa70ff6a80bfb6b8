"""Records the history of clients in many threads and processes on one memory store.

`python -m support.linearizability.history URL OUT PROCESSES THREADS COUNT SEED SCENE [KILLED_AFTER]` forks the
processes before a backend is opened. Each process opens its own backend, waits for the others, and starts at the same
time as they do. It writes JSON lines to a file in the directory OUT, one before each call and one after each return, so
that it can be killed at any time. At the end another process views every memory.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from support.targets import Answer, Target, compile_patterns, open_target

from .checker import Command, Operation

TESTS = Path(__file__).resolve().parents[2]
STORE = "default"
FILE_HEADER = "Here's the content of "
TIMEOUT_S = 300


@dataclass(frozen=True)
class Scene:
    """Paths that the clients share: memories, and directories that the clients list, delete and move."""

    files: tuple[str, ...]
    directories: tuple[str, ...] = ()
    weights: dict[str, int] = field(
        default_factory=lambda: {"view": 32, "create": 14, "str_replace": 28, "insert": 8, "delete": 8, "rename": 10}
    )


SCENES = {
    "memories": Scene(("/memories/a.md", "/memories/b.md", "/memories/c.md", "/memories/d.md")),
    "edits": Scene(("/memories/a.md", "/memories/b.md"), weights={"view": 30, "create": 5, "str_replace": 65}),
    "tree": Scene(
        ("/memories/a.md", "/memories/d/x.md", "/memories/d/y.md", "/memories/e/x.md", "/memories/a.md/below.md"),
        ("/memories", "/memories/d", "/memories/e", "/memories/d/deep"),
    ),
}


def lines_seen(text: str) -> list[str] | None:
    """Return the non-empty lines of a memory from a view, or None if the reply does not show a memory."""
    return [row[7:] for row in text.split("\n")[1:] if row[7:]] if text.startswith(FILE_HEADER) else None


@dataclass
class Client:
    """Client that runs random commands, mostly edits of lines that it has seen. Every text that it writes is unique."""

    name: str
    scene: Scene
    rng: random.Random
    seen: dict[str, list[str]] = field(default_factory=dict)
    written: int = 0

    def next(self) -> Command:
        names, weights = zip(*self.scene.weights.items(), strict=True)
        (name,) = self.rng.choices(names, weights)
        path = self.rng.choice(self.scene.files)
        match name:
            case "create":
                return {"command": name, "path": path, "file_text": f"{self._new()}\n{self._new()}\n"}
            case "str_replace" if self.seen.get(path):
                return self._replace(path)
            case "insert":
                line = self.rng.randint(0, 2)
                return {"command": name, "path": path, "insert_line": line, "insert_text": self._new()}
            case "delete":
                return {"command": name, "path": self._random_path(path)}
            case "rename":
                return {"command": name, "old_path": self._random_path(path), "new_path": self._random_path(path)}
        return {"command": "view", "path": self._random_path(path)}

    def learn(self, command: Command, answer: Answer) -> None:
        """Remember the lines of a viewed memory, or that a path has no memory."""
        path = str(command.get("path"))
        lines = lines_seen(answer.text)
        if lines is not None:
            self.seen[path] = lines
        elif answer.is_error:
            self.seen.pop(path, None)

    def _replace(self, path: str) -> Command:
        old = self.rng.choice(self.seen[path])
        if self.rng.random() < 0.2:
            return {"command": "str_replace", "path": path, "old_str": old + "\n", "new_str": ""}
        return {"command": "str_replace", "path": path, "old_str": old, "new_str": self._new()}

    def _random_path(self, path: str) -> str:
        """Return the path or, less often, a directory or another memory."""
        others = self.scene.directories or self.scene.files
        return self.rng.choice(others) if self.rng.random() < 0.4 else path

    def _new(self) -> str:
        self.written += 1
        return f"w{self.name}:{self.written};"


@dataclass
class Recorder:
    """Writer of the operations of one process to a file. It is thread-safe, because one call writes each line."""

    target: Target
    fd: int

    def run(self, client: Client, count: int) -> None:
        for number in range(count):
            command = client.next()
            client.learn(command, self.execute(client.name, number, command))

    def execute(self, name: str, number: int, command: Command) -> Answer:
        self._write({"client": name, "number": number, "called": time.monotonic_ns(), "command": command})
        called = time.monotonic_ns()
        answer = self.target.execute(STORE, command)
        returned = time.monotonic_ns()
        said = {"text": answer.text, "is_error": answer.is_error}
        self._write({"client": name, "number": number, "called": called, "returned": returned, "answer": said})
        return answer

    def _write(self, row: dict[str, object]) -> None:
        os.write(self.fd, json.dumps(row).encode() + b"\n")


def record(
    url: str, out: Path, *, processes: int, threads: int, count: int, seed: int, scene: str, killed_after: int = 0
) -> list[Operation]:
    """Record `processes` x `threads` clients with `count` commands each on a new memory store.

    With `killed_after`, the first process kills itself after its first client got that many replies.
    """
    out.mkdir()
    module = [sys.executable, "-m", "support.linearizability.history"]
    arguments = map(str, [url, out, processes, threads, count, seed, scene, killed_after])
    done = subprocess.run(
        [*module, *arguments], cwd=TESTS, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{done.returncode}: {done.stderr}"
    return [operation for path in sorted(out.iterdir()) for operation in read(path)]


def read(path: Path) -> Iterator[Operation]:
    """Read the operations of one file. A killed process leaves a call without a return or a truncated line."""
    calls: dict[tuple[str, int], dict[str, Any]] = {}
    for line in path.read_text().split("\n")[:-1]:
        row = json.loads(line)
        calls.setdefault((row["client"], row["number"]), {}).update(row)
    for row in calls.values():
        answer = Answer(**row["answer"]) if "answer" in row else None
        yield Operation(row["client"], row["command"], row["called"], row.get("returned", 0), answer)


# -- the processes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunOptions:
    """Options of one run, the same for every process."""

    url: str
    out: Path
    threads: int
    count: int
    seed: int
    scene: Scene
    killed_after: int

    def work(self, worker: int, gate: tuple[int, int]) -> None:
        """Open the backend, wait for the others, and run the clients of one process."""
        with Opened(self.url, self.out / f"{worker}.jsonl") as recorder:
            clients = [self._thread(recorder, worker, thread) for thread in range(self.threads)]
            os.write(gate[0], b"r")
            os.read(gate[1], 1)  # returns when the parent closes its end of the pipe
            for each in clients:
                each.start()
            for each in clients:
                each.join()

    def _thread(self, recorder: Recorder, worker: int, thread: int) -> threading.Thread:
        name = f"{worker}.{thread}"
        client = Client(name, self.scene, random.Random(f"{self.seed}/{name}"))

        def run() -> None:
            if (worker, thread) == (0, 0) and self.killed_after:
                recorder.run(client, self.killed_after)
                os.kill(os.getpid(), signal.SIGKILL)
            recorder.run(client, self.count)

        return threading.Thread(target=run)

    def view_all(self) -> None:
        """View every memory at the end of the run."""
        with Opened(self.url, self.out / "last.jsonl") as recorder:
            for number, path in enumerate(self.scene.files):
                recorder.execute("last", number, {"command": "view", "path": path})


@dataclass
class Opened:
    """A backend and the recording file of a process. Both are closed at the end."""

    url: str
    path: Path

    def __enter__(self) -> Recorder:
        self._target = open_target(self.url)
        self._target.execute(STORE, {"command": "view", "path": "/memories"})
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return Recorder(self._target, self._fd)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._target.close()


def main(crowd: RunOptions, processes: int) -> int:
    """Fork the processes, start them together, and wait for them. Returns 0 if every process ended as expected."""
    if crowd.url.startswith("sdk:"):
        import anthropic.tools  # noqa: F401 - takes a second, which the forks then share
    compile_patterns()
    ready, tell_ready = os.pipe()
    go, let_go = os.pipe()
    pids = []
    for worker in range(processes):
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            os.close(let_go)
            run_forked(partial(crowd.work, worker, (tell_ready, go)), tell_ready)
        pids.append(pid)
    os.close(tell_ready)
    for _ in pids:
        os.read(ready, 1)
    os.close(let_go)
    ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    crowd.view_all()
    killed = [-signal.SIGKILL] if crowd.killed_after else [0]
    return 0 if ended == killed + [0] * (processes - 1) else 1


def run_forked(work: Callable[[], None], tell_ready: int) -> NoReturn:
    """Run the work of a forked process and exit. Errors go to stderr. Other processes do not wait for a failed one."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os.write(tell_ready, b"r")
    os._exit(status)


if __name__ == "__main__":
    url, out, processes, threads, count, seed, scene, killed_after = sys.argv[1:]
    crowd = RunOptions(url, Path(out), int(threads), int(count), int(seed), SCENES[scene], int(killed_after))
    sys.exit(main(crowd, int(processes)))
