"""Client of the fault server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from .cases import Case, as_json
from .injector import FAULTS_OF, KILLS, Call, parse_log

TESTS = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    """Result of one case."""

    case: Case
    calls: Sequence[Call]
    reply: str | None
    is_error: bool
    problems: Sequence[str]

    def __str__(self) -> str:
        hit = next((str(call) for call in self.calls if call.number == self.case.number), "never reached")
        return f"{self.case} [{hit}] reply {self.reply!r}: {'; '.join(self.problems)}"


class FaultServer:
    """A running fault server, as a context manager. `module` is its program."""

    def __init__(self, library: Path, module: str = "faults.process.server") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=TESTS,
            env={**os.environ, "LD_PRELOAD": str(library)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> FaultServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def prepare(self, backend: str, step: str, directory: Path) -> list[str]:
        """Create the store of a step, and return the names of all files that are not memories."""
        directory.mkdir()
        answer = self.ask({"prepare": {"backend": backend, "step": step, "directory": str(directory)}})
        assert answer["problems"] == [], answer["problems"]
        return list(answer["names"])

    def run(self, case: Case, store: Path, names: list[str], clean_reply: str | None) -> Result:
        """Run one case in a copy of a prepared store."""
        request = {"case": as_json(case), "store": str(store), "names": names, "clean_reply": clean_reply}
        answer = self.ask({"run": request})
        return Result(case, parse_log(answer["log"]), answer["reply"], answer["is_error"], answer["problems"])

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def all_cases(clean: Result) -> list[Case]:
    """Return every fault at every call of a step, given a run in which the calls were only counted."""
    cases: list[Case] = []
    for call in clean.calls:
        for fault in FAULTS_OF[call.kind]:
            for ending in ("close",) if fault in KILLS else ("close", "kill"):
                cases.append(Case(clean.case.backend, clean.case.step, fault, call.number, ending))
    return cases
