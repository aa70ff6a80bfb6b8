"""The usage page: changes by calendar day, the use of memories, and the strip of the last days."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.console import figures
from retentive.console.pages import stores
from support.console import Person
from support.http_api import Api

pytestmark = pytest.mark.usefixtures("one_day")


def test_the_csv_has_the_numbers_of_the_page(person: Person, store: MemoryStore, at: str) -> None:
    """The CSV has a row for each of 30 days; those with changes are the rows of the table."""
    for number in range(7):
        store.create(f"/memories/many/{number}.md", "x\n")
    page = person.get(f"{at}/stats")
    assert page.problems() == []
    answer = person.get(next(link for link in page.links if "format=csv" in link))
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"].startswith("attachment; ")
    head, *rows = csv.reader(answer.body.splitlines())
    assert head == ["day", "changes"]
    assert len(rows) == stores.USAGE_DAYS
    assert [day for day, _ in rows] == sorted(day for day, _ in rows)
    shown = re.findall(r'<tr><td>(\d{4}-\d\d-\d\d)</td><td class="num">(\d+)</td></tr>', page.body)
    assert shown == [(day, count) for day, count in rows if count != "0"]
    assert sum(int(count) for _, count in rows) == len(store.history.log(limit=1_000))


DAY_S = 86_400


@pytest.fixture
def old(tmp_path: Path) -> str:
    """A location whose store `old` has changes 40 and 10 days ago, and none since then."""
    url, now = f"sqlite:///{tmp_path}/old.db", [time.time() - 40 * DAY_S]
    with retentive.open(url, clock=lambda: now[0]) as place:
        made = place.store("old")
        made.create("/memories/early/first.md", "x\n")
        made.create("/memories/early/viewed.md", "xxx\n")
        now[0] += 30 * DAY_S
        made.create("/memories/late.md", "xxxxx\n")
        made.edit("/memories/late.md", "xxxxx", "xxxxxxx")
    return url


def test_the_strip_leads_to_the_end_of_each_day(old: str, served: Callable[..., AbstractContextManager[Api]]) -> None:
    """The root directory has a bar for each of 60 days. A key for some paths gets none."""
    with retentive.open(old) as place, served(place) as api:
        at = f"/console/s/{place.store('old').id}"
        person = Person(api)
        page = person.get(f"{at}/tree/")
        assert page.problems() == []
        bars = re.findall(r'<a href="([^"]+)" tabindex="-1" aria-label="[^":]+: (\d+) changes?">', page.body)
        assert len(bars) == figures.STRIP_DAYS
        assert [int(count) for _, count in bars if count != "0"] == [2, 2]
        first = next(to for to, count in bars if count != "0")
        past = person.get(first)
        assert "early/" in past.text
        assert "Since then: 2 changes by 1 actor; 1 new" in past.text
        limited = Person(api.with_key("read", paths=("/memories/early/**",)))
        assert 'class="strip"' not in limited.get(f"{at}/tree/").body
