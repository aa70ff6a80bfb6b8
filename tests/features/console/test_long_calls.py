"""Long calls of streamed pages: they end when the page is closed, and so do downloads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator, Iterator
from itertools import count
from typing import Any

import pytest

from retentive import MemoryStore
from retentive.console import progress
from retentive.console.pages import usage
from retentive.console.searching import SearchAll
from retentive.server.calls import Streamed
from retentive.server.handlers import transfers
from support.console import Person

END_S = 30
"""Longest time until a call ends."""


@pytest.fixture
def without_collection() -> Iterator[None]:
    """Without the garbage collector, which closes forgotten generators at some time."""
    gc.disable()
    yield
    gc.enable()


def leave(person: Person, url: str) -> None:
    """Open a page, and close the connection after the first piece."""
    with person.http.stream("GET", url) as answer:
        assert next(answer.iter_bytes())


def has_places(places: threading.BoundedSemaphore) -> bool:
    """Whether as many calls may start as if none ran."""
    count = progress.SEARCHES if places is progress._searching else progress.CALLS
    taken = [places.acquire(timeout=END_S) for _ in range(count)]
    places.release(sum(taken))
    return all(taken)


@pytest.mark.usefixtures("without_collection")
@pytest.mark.parametrize("name", ["search", "usage"])
def test_a_closed_page_stops_its_call(
    person: Person, store: MemoryStore, at: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More pages are closed than calls may run, and the next page still gets its result."""
    monkeypatch.setattr(progress, "GAP_S", 0)
    pages: dict[str, tuple[object, str, str, str]] = {
        "search": (SearchAll, "run", f"/console/search?q=plain&in={store.id}", "1 memory."),
        "usage": (usage, "memory_use", f"{at}/stats", "2 of 2 memories"),
    }
    owner, function, url, result = pages[name]
    run, ended = getattr(owner, function), threading.Semaphore(0)

    def endless(*given: Any, **named: Any) -> None:
        try:
            while True:
                run(*given, **named)
        finally:
            ended.release()

    with monkeypatch.context() as patch:
        patch.setattr(owner, function, endless)
        for _ in range((progress.SEARCHES if name == "search" else progress.CALLS) + 1):
            leave(person, url)
            assert ended.acquire(timeout=END_S)
    assert has_places(progress._searching if name == "search" else progress._running)
    assert result in person.get(url).text


@pytest.mark.usefixtures("without_collection")
def test_a_closed_download_closes_its_file(person: Person, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()

    def pieces() -> Generator[bytes]:
        try:
            for _ in count():
                yield b"x" * 100_000
        finally:
            closed.set()

    monkeypatch.setattr(transfers, "export_store", lambda *_, **__: Streamed(pieces(), "application/x-tar"))
    leave(person, f"{at}/export/file?format=tar")
    assert closed.wait(END_S)


@pytest.mark.parametrize("steps_of", [progress.steps_of, progress.only_step_of])
def test_an_unexpected_error_is_shown_and_logged(
    steps_of: Callable[[Callable[[progress.ReportDone], None]], Iterator[progress.ProgressStep[None]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log has no message, since it may quote a memory."""

    def work(_: progress.ReportDone) -> None:
        raise LookupError("a text")

    assert [step.problem for step in steps_of(work)] == ["internal_error"]
    assert "a call of a console page failed: LookupError < test_long_calls.py" in caplog.text
    assert "a text" not in caplog.text
