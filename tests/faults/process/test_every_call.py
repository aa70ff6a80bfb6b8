"""Every file system call of every command fails or is the last one before a kill. The reply must still be true.

The test tries a fixed sample of all calls and faults of a step. SAMPLE is the size of the sample.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.profiles import LONG, sized
from support.targets import BACKENDS

from .cases import COMMANDS, Case
from .client import FaultServer, Result, all_cases
from .injector import build, why_not

SAMPLE = sized(quick=1, long=8, full=80)  # number of cases of a step; `create large` alone has thousands of calls
MOST_SHOWN = 25

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultServer]:
    with FaultServer(build(tmp_path_factory.mktemp("library"))) as running:
        yield running


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("step", COMMANDS if LONG else ["view a directory", "str_replace", "rename"])
def test_a_reply_holds_whatever_call_fails(server: FaultServer, tmp_path: Path, backend: str, step: str) -> None:
    """A success reply means that the change is stored, an error reply that nothing changed. The next process works."""
    names = server.prepare(backend, "create", tmp_path / "clean")
    if step != "create":
        server.prepare(backend, step, tmp_path / "store")
    store = tmp_path / ("clean" if step == "create" else "store")
    clean = server.run(Case(backend, step), store, names, None)
    assert clean.problems == []
    assert clean.calls, "the library sees no call"
    cases = all_cases(clean)
    if len(cases) > SAMPLE:
        cases = random.Random(f"{backend} {step}").sample(cases, SAMPLE)
    results = [server.run(case, store, names, clean.reply) for case in cases]
    bad = report(results)
    assert not bad, bad


@pytest.mark.parametrize("backend", ["sqlite", pytest.param("directory", marks=pytest.mark.long)])
def test_a_change_whose_sync_fails_is_not_recovered(server: FaultServer, tmp_path: Path, backend: str) -> None:
    """The process is killed after its error reply. The next process, which runs the recovery, finds no change."""
    store = tmp_path / "store"
    names = server.prepare(backend, "create", store)
    clean = server.run(Case(backend, "create"), store, names, None)
    syncs = {call.number for call in clean.calls if call.kind == "s"}
    cases = [case for case in all_cases(clean) if case.number in syncs and case.ending == "kill"]
    assert cases
    bad = report([server.run(case, store, names, clean.reply) for case in cases])
    assert not bad, bad


def report(results: list[Result]) -> str:
    """Return the cases that break a promise, one in each line."""
    bad = [str(result) for result in results if result.problems]
    more = [f"... and {len(bad) - MOST_SHOWN} more"] if len(bad) > MOST_SHOWN else []
    return "\n".join([*(f"{len(bad)} of {len(results)} cases" for _ in bad[:1]), *bad[:MOST_SHOWN], *more])
