"""The usage page: changes by calendar day, the use of memories, and the strip of the last days."""

from __future__ import annotations

import csv
import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.console import strips
from retentive.console.pages import listing, usage
from retentive.console.web import console
from support.console import Person
from support.http_api import Api, serving

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
    assert len(rows) == usage.DAYS
    assert [day for day, _ in rows] == sorted(day for day, _ in rows)
    shown = re.findall(r'<tr><td>(\d{4}-\d\d-\d\d)</td><td class="num">(\d+)</td></tr>', page.body)
    assert shown == [(day, count) for day, count in rows if count != "0"]
    assert sum(int(count) for _, count in rows) == len(store.history.log(limit=1_000))


def changes_of_csv(person: Person, store: MemoryStore) -> list[tuple[str, int]]:
    """Return the days of the CSV file, each with its number of changes."""
    _, *rows = csv.reader(person.get(f"/console/s/{store.id}/stats?format=csv").body.splitlines())
    return [(day, int(count)) for day, count in rows]


@pytest.mark.parametrize("seed", range(4))
def test_the_days_of_the_csv_are_those_of_the_log(tmp_path: Path, seed: int) -> None:
    """For a random history with quiet days, and changes that have several versions."""
    chosen, now = random.Random(seed), [time.time() - 40 * DAY_S]
    with (
        retentive.open(f"sqlite:///{tmp_path}/m.db", clock=lambda: now[0]) as place,
        serving(place, more=lambda server: console(server).routes()) as api,
    ):
        store, person = place.store("s"), Person(api)
        assert {count for _, count in changes_of_csv(person, store)} == {0}
        for number in range(40):
            now[0] += 3_600 * chosen.choice((0, 1, 5, 30, 70))
            if number % 7 == 6:
                store.rename("/memories/d", f"/memories/d{number}")
            store.create(f"/memories/d/{number}.md", "x")
        by_revision = {each.revision: each.created_at for each in store.history.log(limit=1_000)}
        changes = Counter(at.date().isoformat() for at in by_revision.values())
        assert changes_of_csv(person, store) == [(day, changes[day]) for day, _ in changes_of_csv(person, store)]
        person.close()


def test_changes_whose_versions_were_removed_count_to_no_day(tmp_path: Path) -> None:
    """If they are before the oldest version that is left, which is the tenth of eleven."""
    now = [time.time() - 40 * DAY_S]
    with (
        retentive.open(
            f"sqlite:///{tmp_path}/m.db", clock=lambda: now[0], keep_versions=1, keep_versions_days=1
        ) as place,
        serving(place, more=lambda server: console(server).routes()) as api,
    ):
        store, person = place.store("s"), Person(api)
        for number in range(10):
            store.write("/memories/a.md", f"{number}")
        now[0] += 10 * DAY_S
        store.write("/memories/a.md", "last")
        now[0] += 1
        assert store.sweep(accept_clock=True).versions_pruned == 9
        assert [count for _, count in changes_of_csv(person, store)] == [0] * (usage.DAYS - 11) + [1] + [0] * 9 + [1]
        person.close()


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


def test_each_download_of_the_changes_is_in_the_audit_log(api: Api, store: MemoryStore, at: str) -> None:
    store.change_settings({"audit": True})
    for paths in ((), ("/memories/notes/**",)):
        person = Person(api, api.with_key("read", paths=paths).key)
        person.get(f"{at}/stats?format=csv")
        person.close()
    entries = [(each.operation, each.integration) for each in store.audit.entries()]
    assert entries[-2:] == [("usage", "console")] * 2
    assert len({each.actor for each in list(store.audit.entries())[-2:]}) == 2


def test_deleted_memories_are_not_among_those_changed_most_often(
    api: Api, person: Person, store: MemoryStore, at: str
) -> None:
    """Each link leads to a memory. A key for some paths gets no link to a memory that was moved elsewhere."""
    store.write("/memories/b.txt", "1\n")
    store.delete("/memories/b.txt")
    limited = Person(api, api.with_key("read", paths=("/memories/notes/**",)).key)
    for moves, expected in ((False, ["notes/a.md", "notes/a.md"]), (True, ["moved.md", ""])):
        if moves:
            store.rename("/memories/notes/a.md", "/memories/moved.md")
        for each, path in zip((person, limited), expected, strict=True):
            links = [link for link in each.get(f"{at}/stats").links if "/id/" in link]
            assert [each.get(link).url.partition("/m/")[2] for link in links] == ([path] if path else [])
    limited.close()


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


def test_the_largest_and_the_unused_memories(old: str) -> None:
    """A view counts as use. A key for some paths sees only memories there."""
    with retentive.open(old) as place, serving(place, more=lambda server: console(server).routes()) as api:
        at = f"/console/s/{place.store('old').id}"
        place.store("old").view("/memories/early/viewed.md")
        person = Person(api)
        page = person.get(f"{at}/stats")
        assert page.problems() == []
        assert "the limit is 102.4 KB Largest memories late.md 8 B early/viewed.md 4 B early/first.md 2 B" in page.text
        assert "Memory Last used early/first.md" in page.text
        assert "2 of 3 memories (66 %) were used in the last 30 days" in page.text
        assert "changed most often late.md 2 versions" in page.text
        limited = Person(api, api.with_key("read", paths=("/memories/early/**",)).key)
        part = limited.get(f"{at}/stats").text
        assert "1 of 2 memories (50 %)" in part
        assert "late.md" not in part
        for each in (person, limited):
            each.close()


def test_the_strip_leads_to_the_end_of_each_day(old: str) -> None:
    """The directory and the activity have a bar for each of 60 days. A key for some paths gets none."""
    with retentive.open(old) as place, serving(place, more=lambda server: console(server).routes()) as api:
        at = f"/console/s/{place.store('old').id}"
        person = Person(api)
        for url in (f"{at}/tree/", f"{at}/activity"):
            page = person.get(url)
            assert page.problems() == []
            bars = re.findall(r'<a href="([^"]+)" tabindex="-1" aria-label="[^":]+: (\d+) changes?">', page.body)
            assert len(bars) == strips.DAYS
            assert [int(count) for _, count in bars if count != "0"] == [2, 2]
        first = next(to for to, count in bars if count != "0")
        past = person.get(first)
        assert "early/" in past.text
        assert "Since then: 2 changes by 1 actor; 1 new" in past.text
        assert 'class="then"' in past.body
        limited = Person(api, api.with_key("read", paths=("/memories/early/**",)).key)
        assert all('class="strip"' not in limited.get(f"{at}/{page}").body for page in ("tree/", "activity"))
        for each in (person, limited):
            each.close()
