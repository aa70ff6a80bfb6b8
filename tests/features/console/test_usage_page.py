"""The usage page: changes by calendar day, as a table and as CSV."""

from __future__ import annotations

import csv
import re

import pytest

from retentive import MemoryStore
from retentive.console.pages import administration, listing
from support.console import Person
from support.http_api import Api


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
    assert len(rows) == administration.DAYS
    assert [day for day, _ in rows] == sorted(day for day, _ in rows)
    shown = re.findall(r'<tr><td>(\d{4}-\d\d-\d\d)</td><td class="num">(\d+)</td></tr>', page.body)
    assert shown == [(day, count) for day, count in rows if count != "0"]
    assert sum(int(count) for _, count in rows) == len(store.history.log(limit=1_000))


def test_a_key_for_some_paths_gets_the_days_of_what_it_sees(
    api: Api, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Revisions would tell it how many changes there are elsewhere. Days that are not known in full are left out."""
    person = Person(api, api.with_key("read", paths=("/memories/notes/**",)).key)
    *_, (_, today) = csv.reader(person.get(f"{at}/stats?format=csv").body.splitlines())
    assert today == "2"
    monkeypatch.setattr(listing, "RECENT", 1)
    assert person.get(f"{at}/stats?format=csv").body == "day,changes\n"
    person.close()
