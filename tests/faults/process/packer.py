"""Process that forks for each request, with the fault library loaded: `python -m faults.process.packer`.

A forked process packs, redacts, prunes or erases the versions of a memory, and is killed at a file system call or at a
time. The parent opens no location.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.targets import compile_patterns

from .injector import Injector
from .server import Tell, fork

MEMORY, OTHER = "/memories/a.md", "/memories/other.md"
EDITED = 32  # so many edits of one process pack a memory
YEARS_S = 3 * 365 * 86_400.0
WARM = ("retentive.storage.files.backend", "support.places")
COUNT, OTHERS, LINES, REDACTED = 40, 12, 60, 5


def text_of(path: str, number: int) -> str:
    """Return the text of the version with this number."""
    changed = {line * 7 % LINES: line for line in range(number)}
    lines = (f"line {line} of {path} {'changed' if line in changed else ''} {'-' * 40}" for line in range(LINES))
    return "\n".join([f"{path} number {number}.", *lines])


@contextmanager
def at(url: str, keys: str | None, *, in_years: bool = False) -> Iterator[Any]:
    """Open a location. `keys` is the file with the key of an encrypted one."""
    import retentive

    options: dict[str, Any] = {"sweep": False, "sensitive": "off", "keys": keys}
    if in_years:
        options["clock"] = lambda: time.time() + YEARS_S
    with retentive.open(url, **options) as place:
        yield place


def write(store: Any, path: str, start: int, end: int) -> None:
    """Make the versions with these numbers."""
    for number in range(start, end):
        command = {"command": "create", "path": path, "file_text": text_of(path, number)}
        if number:
            texts = {"old_str": text_of(path, number - 1), "new_str": text_of(path, number)}
            command = {"command": "str_replace", "path": path, **texts}
        reply = store.execute(command)
        assert not reply.is_error, reply.text


def redact(store: Any) -> None:
    memory = store.versions(MEMORY)[0].memory_id
    store.history.redact([store.versions(memory_id=memory)[-1 - REDACTED].id])


STEPS: dict[str, Callable[[Any], object]] = {
    "sweep": lambda store: store.sweep(),
    "edit": lambda store: write(store, MEMORY, COUNT + EDITED - 2, COUNT + EDITED),
    "redact": redact,
    "prune": lambda store: store.sweep(accept_clock=True),
    "erase": lambda store: store.history.erase(MEMORY),
}
"""Steps that may be killed at any moment. The last edit packs the memory."""


def main() -> None:
    """Answer requests until stdin closes."""
    for module in WARM:
        importlib.import_module(module)
    compile_patterns()
    for line in sys.stdin:
        request = json.loads(line)
        child = fork(lambda tell, log_fd, request=request: run(tell, log_fd, **request))  # type: ignore[misc]
        said = {name: value for one in child.lines for name, value in one.items()}
        print(json.dumps({**said, "calls": len(child.log.splitlines()), "hung": child.hung}), flush=True)


def run(
    tell: Tell,
    log_fd: int,
    *,
    url: str,
    keys: str | None,
    directory: str,
    step: str,
    key: str = "default",
    environment: dict[str, str] | None = None,
    number: int = 0,
    fault: str = "count",
    after_s: float = 0.0,
) -> None:
    """Do a step in a store. It is killed by `fault` at the call with this number, or after a time."""
    os.environ.update(environment or {})
    with at(url, keys, in_years=step == "prune") as place:
        store = place.store(key)
        store.read(OTHER)
        if step == "edit":
            write(store, MEMORY, COUNT, COUNT + EDITED - 2)
        injector = Injector()
        injector.arm(Path(directory), fault=fault, number=number, log_fd=log_fd)
        if after_s:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, after_s)
        began = time.monotonic()
        STEPS[step](store)
        tell(took_s=time.monotonic() - began)
        signal.setitimer(signal.ITIMER_REAL, 0)
        injector.disarm()


if __name__ == "__main__":
    main()
