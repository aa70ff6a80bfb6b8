"""Records the history of clients in many threads and processes on one memory store.

`python -m support.linearizability.history RUN` forks the processes of a `Run`, given as JSON. Each opens its own
backend. It writes JSON lines to a file, one before each call and one after each return, so that it can be killed at any
time. At the end another process views every memory.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from support.crowd import crowd
from support.targets import Answer, Target, open_target

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


def record(run: Run) -> list[Operation]:
    """Record the history of a run on a new memory store."""
    Path(run.out).mkdir()
    command = [sys.executable, "-m", "support.linearizability.history", json.dumps(asdict(run))]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"{done.returncode}: {done.stderr}"
    return [operation for path in sorted(Path(run.out).iterdir()) for operation in read(path)]


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
class Run:
    """`processes` x `threads` clients with `count` commands each. The processes use the URLs in turn.

    With `killed_after`, the first process kills itself after its first client got that many replies. `out` is a new
    directory for the files.
    """

    urls: list[str]
    out: str
    processes: int
    threads: int
    count: int
    seed: int
    scene: str
    killed_after: int = 0

    def work(self, worker: int, begin: Callable[[], None]) -> None:
        """Run the clients of one process."""
        with self._recorder(str(worker)) as recorder:
            names = [f"{worker}.{thread}" for thread in range(self.threads)]
            clients = [threading.Thread(target=self._client, args=(recorder, name)) for name in names]
            begin()
            for each in clients:
                each.start()
            for each in clients:
                each.join()

    def _client(self, recorder: Recorder, name: str) -> None:
        client = Client(name, SCENES[self.scene], random.Random(f"{self.seed}/{name}"))
        if name == "0.0" and self.killed_after:
            recorder.run(client, self.killed_after)
            os.kill(os.getpid(), signal.SIGKILL)
        recorder.run(client, self.count)

    @contextmanager
    def _recorder(self, name: str) -> Iterator[Recorder]:
        target = open_target(self.urls[int(name) % len(self.urls)] if name.isdigit() else self.urls[0])
        target.execute(STORE, {"command": "view", "path": "/memories"})
        fd = os.open(Path(self.out, f"{name}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        yield Recorder(target, fd)
        os.close(fd)
        target.close()

    def main(self) -> int:
        """Run all processes. Returns 0 if every process ended as expected."""
        if self.urls[0].startswith("sdk:"):
            import anthropic.tools  # noqa: F401 - takes a second, which the forks then share
        ended = crowd(self.processes, self.work)
        with self._recorder("last") as recorder:
            for number, path in enumerate(SCENES[self.scene].files):
                recorder.execute("last", number, {"command": "view", "path": path})
        first = -signal.SIGKILL if self.killed_after else 0
        return 0 if ended == [first] + [0] * (self.processes - 1) else 1


if __name__ == "__main__":
    sys.exit(Run(**json.loads(sys.argv[1])).main())
