"""Processes of the systems under test, and the requests to them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Self

from workloads.environments import Unavailable, npm_folder
from workloads.oracle import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workloads.adapters.base import System
    from workloads.operations import Turn

BENCHMARKS = Path(__file__).resolve().parents[1]
# No system may call a service: mem0 has a client for OpenAI that it does not use without inference.
QUIET = {
    "MEM0_TELEMETRY": "False",
    "OPENAI_API_KEY": "unused",
    "ANONYMIZED_TELEMETRY": "False",
    "HF_HUB_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore",
}


class Failed(Exception):
    """A request that a worker did not answer as it should."""


class Process:
    """One worker. `log` gets what the system prints."""

    def __init__(self, system: System, python: str, log: Path) -> None:
        self.system = system
        paths = [str(BENCHMARKS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        if system.packages:
            paths = paths[:1]  # a peer must not see packages of this project's environment
        # below the log's folder, so that no system reads or writes the user's own configuration
        home = {"HOME": str(log.parent), "MEM0_DIR": str(log.parent / "mem0")} if system.packages else {}
        self._log = log
        with log.open("a", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                [python, "-m", "workloads.worker", system.adapter],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                env=os.environ
                | QUIET
                | home
                | {
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                    "WORKLOADS_NPM": str(npm_folder(system.adapter)),
                    "PYTHONDONTWRITEBYTECODE": "1" if not system.packages else "",
                },
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def open(self, folder: Path, address: str) -> None:
        """Open the store in a folder. Raises `Unavailable` if the system cannot."""
        request = {"do": "open", "system": self.system.name, "folder": str(folder), "address": address}
        try:
            self._ask(request)
        except Failed as error:
            raise Unavailable(f"does not open: {error}") from None

    def fill(self, notes: Mapping[str, str]) -> None:
        """Add the first notes."""
        self._ask({"do": "fill", "notes": notes})

    def run(self, turn: Turn, limit_s: float) -> tuple[int, list[list[Outcome]]]:
        """Run one turn: the elapsed time in nanoseconds, and the outcomes of each caller."""
        answer = self._ask({"do": "run", "turn": turn, "limit_s": limit_s})
        done = answer["done"]
        span = answer["span_ns"]
        assert isinstance(done, list)
        assert isinstance(span, int)
        return span, [[Outcome(*each) for each in one] for one in done]

    def read(self, keys: Sequence[str]) -> tuple[list[str], dict[str, str | None]]:
        """Return the keys of all notes, and the texts of those asked for."""
        answer = self._ask({"do": "read", "keys": keys})
        names, texts = answer["names"], answer["texts"]
        assert isinstance(names, list)
        assert isinstance(texts, dict)
        return names, texts

    def close(self) -> None:
        """Close the store, not the process."""
        self._ask({"do": "close"})

    def _ask(self, request: Mapping[str, object]) -> dict[str, object]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._last_words()) from None
        line = self._process.stdout.readline()
        if not line:
            raise Failed(self._last_words())
        answer = json.loads(line) or {}
        assert isinstance(answer, dict)
        if isinstance(error := answer.get("error"), str):
            raise Failed(error[:300])
        return answer

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"the process ended: {lines[-1][:300] if lines else 'it printed nothing'}"
