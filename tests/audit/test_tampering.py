"""Entries changed by hand in the database are found, and the first of them is named; all else goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from retentive.audit.entries import canonical, key_of

from backends.places import opened
from retentive import InvalidInput, MemoryStore

from .logs import Log

Records = dict[str, str]
Change = Callable[[Records, list[str]], None]
"""Changes the records; the names of the three chains are given, each of which has five entries."""
VIEW = {"command": "view", "path": "/memories"}


def use(store: MemoryStore, number: int) -> None:
    for each in range(5):
        store.execute({"command": "create", "path": f"/memories/{number}-{each}", "file_text": ""})


def value_of(records: Records, chain: str, seq: int) -> str:
    return records[key_of(chain, seq)]


def altered(name: str, value: Any) -> Change:
    def change(records: Records, chains: list[str]) -> None:
        said = json.loads(value_of(records, chains[1], 3))
        records[key_of(chains[1], 3)] = canonical({**said, name: value})

    return change


def respaced(records: Records, chains: list[str]) -> None:
    records[key_of(chains[1], 3)] = json.dumps(json.loads(value_of(records, chains[1], 3)))


def replaced(text: str) -> Change:
    return lambda records, chains: replaced_at(records, chains[1], 3, text)


def replaced_at(records: Records, chain: str, seq: int, text: str) -> None:
    records[key_of(chain, seq)] = text


def altered_to(name: str, text: str) -> Change:
    """A field is given a value that is no JSON."""

    def change(records: Records, chains: list[str]) -> None:
        value = value_of(records, chains[1], 3)
        records[key_of(chains[1], 3)] = f'{{"{name}":{text},{value[1:]}'

    return change


def removed(chain: int, *seqs: int) -> Change:
    def change(records: Records, chains: list[str]) -> None:
        for seq in seqs:
            del records[key_of(chains[chain], seq)]

    return change


def swapped(records: Records, chains: list[str]) -> None:
    a, b = key_of(chains[1], 3), key_of(chains[1], 4)
    records[a], records[b] = records[b], records[a]


def swapped_chains(records: Records, chains: list[str]) -> None:
    a, b = key_of(chains[0], 3), key_of(chains[1], 3)
    records[a], records[b] = records[b], records[a]


def doubled(records: Records, chains: list[str]) -> None:
    records[key_of(chains[1], 6)] = value_of(records, chains[1], 2)


def moved_up(records: Records, chains: list[str]) -> None:
    """One taken out, and the rest numbered anew in their keys."""
    for seq in (3, 4):
        records[key_of(chains[1], seq)] = value_of(records, chains[1], seq + 1)
    del records[key_of(chains[1], 5)]


def without_ends(change: Change) -> Change:
    """Also the records that tell where chains end are taken away."""

    def both(records: Records, chains: list[str]) -> None:
        change(records, chains)
        for key in [key for key in records if key.startswith("~")]:
            del records[key]

    return both


def two(records: Records, chains: list[str]) -> None:
    removed(2, 2)(records, chains)
    swapped(records, chains)


def stray(records: Records, chains: list[str]) -> None:
    records["0"] = "{}"


CASES: dict[str, tuple[Change, tuple[str, int, int]]] = {
    "outcome": (altered("outcome", "not_found"), ("altered", 1, 3)),
    "time": (altered("time", 1), ("altered", 1, 3)),
    "actor": (altered("actor", "user:eve"), ("altered", 1, 3)),
    "actor no text": (altered("actor", 5), ("altered", 1, 3)),
    "command no text": (altered("command", ["view"]), ("altered", 1, 3)),
    "a lone surrogate": (altered("outcome", "\ud800"), ("altered", 1, 3)),
    "versions no texts": (altered("changes", [[["x"], {}]]), ("altered", 1, 3)),
    "the switch": (altered("audit", ["x"]), ("altered", 1, 3)),
    "more": (altered("more", 1), ("altered", 1, 3)),
    "prev": (altered("prev", "0" * 64), ("altered", 1, 3)),
    "hash": (altered("hash", "0" * 64), ("altered", 1, 3)),
    "wrong type": (altered("changes", 7), ("altered", 1, 3)),
    "spaces": (respaced, ("altered", 1, 3)),
    "no JSON": (replaced("{"), ("altered", 1, 3)),
    "not an object": (replaced("[]"), ("altered", 1, 3)),
    "empty": (replaced(""), ("altered", 1, 3)),
    "nested without end": (replaced("[" * 100_000), ("altered", 1, 3)),
    "nested in an entry": (altered_to("more", "[" * 100_000), ("altered", 1, 3)),
    "the first nested": (lambda records, chains: replaced_at(records, chains[1], 1, "[" * 100_000), ("altered", 1, 1)),
    "first removed": (removed(0, 1), ("missing", 0, 1)),
    "one removed": (removed(1, 3), ("missing", 1, 3)),
    "some removed": (removed(1, 2, 3), ("missing", 1, 2)),
    "swapped": (swapped, ("reordered", 1, 3)),
    "swapped between chains": (swapped_chains, ("reordered", 0, 3)),
    "doubled": (doubled, ("duplicate", 1, 6)),
    "moved up": (moved_up, ("reordered", 1, 3)),
    "tail cut": (removed(1, 4, 5), ("missing", 1, 4)),
    "tail and ends cut": (without_ends(removed(1, 4, 5)), ("missing", 1, 4)),
    "chain cut": (without_ends(removed(0, 1, 2, 3, 4, 5)), ("missing", 0, 1)),
    "last tail cut": (removed(2, 5), ("missing", 2, 5)),
    "two": (two, ("reordered", 1, 3)),
}


@pytest.mark.parametrize("backend", ["sqlite", "directory"])
@pytest.mark.parametrize("case", CASES)
def test_what_was_changed_is_found_and_named(case: str, backend: str, tmp_path: Path) -> None:
    """And commands go on, in a chain that is sound."""
    for number in range(3):
        with opened(backend, tmp_path, audit=True) as place:
            use(place.store(), number)
    log = Log(tmp_path)
    records = log.records()
    chains = list(dict.fromkeys(key.partition(":")[0] for key in records if not key.startswith("~")))
    change, (what, chain, seq) = CASES[case]
    change(records, chains)
    log.put(records)
    with opened(backend, tmp_path, audit=True) as place:
        store = place.store()
        problem = store.audit.verify().problem
        assert problem is not None
        assert (problem.what, problem.chain, problem.seq) == (what, chains[chain], seq)
        assert store.execute(VIEW).is_error is False
        assert store.audit.verify().problem == problem
        assert len(list(store.audit.entries())) >= 5


def test_an_entry_nested_as_deep_as_can_be_read_is_named(tmp_path: Path) -> None:
    """Wherever on the way the depth is noticed: one that can just be read cannot just be written."""
    with opened("sqlite", tmp_path, audit=True) as place:
        store = place.store()
        use(store, 0)
        log = Log(tmp_path)
        sound = log.records()
        (key,) = (key for key in sound if key.endswith(f":{3:010}"))
        for depth in range(880, 1_000, 3):
            log.put(sound | {key: f'{{"a":{"[" * depth}{"]" * depth},{sound[key][1:]}'})
            problem = store.audit.verify().problem
            assert problem is not None
            assert (problem.what, problem.seq) == ("altered", 3)


def test_a_record_of_another_kind_is_named(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path, audit=True) as place:
        store = place.store()
        use(store, 0)
        log = Log(tmp_path)
        for key in ("0", "~nothing", "zzz"):
            sound = log.records()
            log.put(sound | {key: "{}"})
            problem = store.audit.verify().problem
            assert problem is not None
            assert problem.chain == key.removeprefix("~")
            log.put(sound)
        assert store.audit.verify().problem is None


def test_an_end_that_was_noted_elsewhere_is_expected(tmp_path: Path) -> None:
    """Who can write the storage can cut the last chain, or write all of them anew; a noted end shows it."""
    with opened("sqlite", tmp_path, audit=True) as place:
        store = place.store()
        use(store, 0)
        (end,) = store.audit.verify().ends
        use(store, 1)
        assert store.audit.verify(expect=[end, str(end)]).problem is None
        log = Log(tmp_path)
        sound = log.records()
        log.put({key: value for key, value in sound.items() if key < key_of(end.chain, 4)})
        assert store.audit.verify().problem is None
        problem = store.audit.verify(expect=[str(end)]).problem
        assert problem is not None
        assert str(problem) == f"entry 4 of chain {end.chain} is missing"
        log.put({})
        problem = store.audit.verify(expect=[end]).problem
        assert problem is not None
        assert (problem.what, problem.seq) == ("missing", 1)
        log.put(sound)
        problem = store.audit.verify(expect=[end._replace(hash="0" * 64)]).problem
        assert problem is not None
        assert (problem.what, problem.chain, problem.seq) == ("altered", end.chain, 5)
        for text in ("", "a:1:b", str(end)[:-1]):
            with pytest.raises(InvalidInput, match="CHAIN:SEQ:HASH"):
                store.audit.verify(expect=[text])


def test_the_log_of_one_store_is_not_that_of_another(tmp_path: Path) -> None:
    """Entries are bound to their store: a sound log of another is none here."""
    with opened("sqlite", tmp_path, audit=True) as place:
        one, two = place.store("one"), place.store("two")
        one.execute(VIEW)
        one.backend.put_side_records(two.id, "audit", dict(one.backend.side_records(one.id, "audit")))
        problem = two.audit.verify().problem
        assert problem is not None
        assert (problem.what, problem.seq) == ("altered", 1)


@pytest.mark.parametrize("backend", ["sealed sqlite", "hidden directory"])
def test_a_sealed_entry_that_was_altered_is_named(backend: str, tmp_path: Path) -> None:
    """Or one that was put in the place of another: what is sealed opens only where it was sealed."""
    for number in range(2):
        with opened(backend, tmp_path, audit=True) as place:
            use(place.store(), number)
    log = Log(tmp_path)
    sound = log.records()
    chain = next(iter(sound)).partition(":")[0]
    third, fourth = key_of(chain, 3), key_of(chain, 4)
    at = len(sound[third]) // 2
    flipped = sound[third][:at] + ("A" if sound[third][at] != "A" else "B") + sound[third][at + 1 :]
    for changed in ({third: flipped}, {third: sound[fourth], fourth: sound[third]}):
        log.put(sound | changed)
        with opened(backend, tmp_path, audit=True) as place:
            problem = place.store().audit.verify().problem
            assert problem is not None
            assert (problem.what, problem.chain, problem.seq) == ("altered", chain, 3)
            assert place.store().execute(VIEW).is_error is False
