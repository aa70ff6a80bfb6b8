"""The audit page: pages of entries, and verifications that show their progress."""

from __future__ import annotations

import re
import threading
from itertools import count

import pytest

from retentive import MemoryStore
from retentive.audit import verify
from retentive.console import progress
from retentive.console.pages.administration import ENTRIES
from support.console import Person


def test_the_audit_log_is_read_page_by_page(person: Person, store: MemoryStore, at: str) -> None:
    store.change_settings({"audit": True})
    for number in range(ENTRIES + 5):
        store.create(f"/memories/many/{number}.md", "x\n")
    first = person.get(f"{at}/audit")
    numbers = [int(found) for found in re.findall(r"<tr><td>(\d+)</td>", first.body)]
    assert numbers == list(range(ENTRIES + 6, 6, -1))
    second = person.get(next(link for link in first.links if "before=" in link))
    assert [int(found) for found in re.findall(r"<tr><td>(\d+)</td>", second.body)] == list(range(6, 0, -1))
    assert not [link for link in second.links if "before=" in link]
    assert person.get(f"{at}/audit?before=x").status == 400


def test_a_verification_sends_its_progress_while_it_runs(
    person: Person, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page begins before the verification ends, and shows how many entries are checked."""
    monkeypatch.setattr(progress, "GAP_S", 0)
    monkeypatch.setattr(verify, "PROGRESS_ENTRIES", 10)
    store.change_settings({"audit": True})
    for number in range(39):
        store.create(f"/memories/many/{number}.md", "x\n")
    page = person.get(f"{at}/audit?verify=1")
    assert [f"{number} of 40 entries checked" in page.text for number in (10, 20, 30, 40)] == [True] * 4
    assert page.text.index("40 of 40") < page.text.index("Sound: 40 entries")
    assert page.problems() == []


def test_a_verification_stops_when_nobody_waits_and_others_may_begin() -> None:
    ended = threading.Event()

    def work(report: progress.ReportDone) -> int:
        try:
            for number in count():
                report(number)
        finally:
            ended.set()
        raise AssertionError("the call was not stopped")

    for _ in range(progress.CALLS + 1):
        ended.clear()
        steps = progress.steps_of(work)
        assert next(steps).problem == ""
        steps.close()
        assert ended.wait(30)
        places = [progress._running.acquire(timeout=30) for _ in range(progress.CALLS)]
        assert all(places)
        progress._running.release(progress.CALLS)


def test_too_many_verifications_at_once_are_refused() -> None:
    assert all(progress._running.acquire(timeout=30) for _ in range(progress.CALLS))
    try:
        assert [step.problem for step in progress.steps_of(lambda _: 1)] == ["overloaded"]
    finally:
        progress._running.release(progress.CALLS)
    assert [step.result for step in progress.steps_of(lambda _: 1)] == [1]
