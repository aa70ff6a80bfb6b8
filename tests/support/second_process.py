"""Second process with an open location: `python -m support.second_process`. JSON lines control it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import retentive

TESTS = Path(__file__).resolve().parents[1]


class SecondProcess:
    """Controls the second process from the test. Context manager."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.second_process"],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()

    def open(self, place: str) -> None:
        """Close the current location, if any, and open this location."""
        self._ask({"open": place})

    def close(self) -> None:
        """Close the open location."""
        self._ask({"open": None})

    def execute(self, command: dict[str, object]) -> str:
        """Run a command and return the text of the reply."""
        return str(self._ask({"execute": command}))

    def _ask(self, request: dict[str, object]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def main() -> None:
    """Answer requests until stdin ends."""
    opened: retentive.Retentive | None = None
    for line in sys.stdin:
        request = json.loads(line)
        said = None
        if "open" in request:
            if opened is not None:
                opened.close()
            opened = None if request["open"] is None else retentive.open(request["open"])
        elif opened is not None:
            said = opened.store().execute(request["execute"]).text
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
