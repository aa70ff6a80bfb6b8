"""Changes to the records of an audit log are detected. The first modified entry is named, and operations still work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retentive import InvalidInput, MemoryStore
from retentive.audit.chain import ENTRY, HEAD, canonical, entry_hash, key_of
from retentive.doctor import check
from retentive.storage.contract import Transaction
from support.places import EVERYWHERE, opened

from .logs import Log

Records = dict[str, str]
Change = Callable[[Records], None]
VIEW = {"command": "view", "path": "/memories"}
ENTRIES = 8
K3, K4, K8 = map(key_of, (3, 4, 8))


def use(store: MemoryStore) -> None:
    for each in range(ENTRIES):
        store.execute({"command": "create", "path": f"/memories/{each}", "file_text": ""})


def altered(name: str, value: Any) -> Change:
    def change(records: Records) -> None:
        line, _, detail = records[K3].partition("\n")
        records[K3] = f"{canonical({**json.loads(line), name: value})}\n{detail}"

    return change


def without(name: str) -> Change:
    def change(records: Records) -> None:
        line, _, detail = records[K3].partition("\n")
        body = {key: value for key, value in json.loads(line).items() if key != name}
        records[K3] = f"{canonical(body)}\n{detail}"

    return change


def replaced(text: str, key: str = K3) -> Change:
    return lambda records: records.update({key: text})


def removed(*seqs: int) -> Change:
    def change(records: Records) -> None:
        for seq in seqs:
            del records[key_of(seq)]

    return change


def with_detail(detail: str) -> Change:
    """The paths of an entry are in a line of their own, which its hash covers and which can be withheld."""
    return lambda records: records.update({K3: records[K3].partition("\n")[0] + detail})


def respaced(records: Records) -> None:
    line, _, detail = records[K3].partition("\n")
    records[K3] = f"{json.dumps(json.loads(line))}\n{detail}"


def twice_named(records: Records) -> None:
    records[K3] = records[K3].replace('{"actor"', '{"actor":"user:eve","actor"', 1)


def swapped(records: Records) -> None:
    records[K3], records[K4] = records[K4], records[K3]


def moved_up(records: Records) -> None:
    """Remove an entry, and move each later entry to the key of the previous one."""
    for seq in range(3, ENTRIES):
        records[key_of(seq)] = records[key_of(seq + 1)]
    del records[K8]


ALTERED: dict[str, Any] = {
    "id": "0" * 16, "time": 10**40, "actor": "user:eve", "operation": ["view"], "integration": "cli",
    "outcome": "\ud800", "changes": [["mem_x", "memver_x"]], "read": ["mem_x", "memver_x"], "listed": True,
    "repeated": True, "proposed": True, "audit": ["x"], "withheld": [2], "detail": "0" * 64, "prev": "0" * 64,
    "hash": "0" * 64, "seq": 4, "another": 1,
}  # fmt: skip
CASES: dict[str, tuple[Change, tuple[str, int]]] = {
    **{f"{name} altered": (altered(name, value), ("altered", 3)) for name, value in ALTERED.items()},
    **{f"{name} removed": (without(name), ("altered", 3)) for name in ("seq", "time", "changes", "prev", "hash")},
    "other paths": (with_detail('\n{"paths":["/memories/x"],"salt":""}'), ("altered", 3)),
    "paths that are no JSON": (with_detail("\n{"), ("altered", 3)),
    "no paths": (with_detail(""), ("altered", 3)),
    "versions not texts": (altered("changes", [[["x"], {}]]), ("altered", 3)),
    "spaces": (respaced, ("altered", 3)),
    "a field twice": (twice_named, ("altered", 3)),
    "no JSON": (replaced("{"), ("altered", 3)),
    "not an object": (replaced("[]"), ("altered", 3)),
    "a number too long to read": (replaced("9" * 5_000), ("altered", 3)),
    "nested without end": (replaced("[" * 100_000), ("altered", 3)),
    "the first nested": (replaced("[" * 100_000, key_of(1)), ("altered", 1)),
    "first removed": (removed(1), ("missing", 1)),
    "some removed": (removed(2, 3), ("missing", 2)),
    "tail cut": (removed(7, 8), ("missing", 7)),
    "all removed": (removed(*range(1, ENTRIES + 1)), ("missing", 1)),
    "swapped": (swapped, ("altered", 3)),
    "moved up": (moved_up, ("altered", 3)),
    "a key that is not ours": (replaced("{}", f"{K3} "), ("altered", 0)),
    "a key too long for a number": (replaced("{}", "9" * 180), ("altered", 0)),
    "a key of other digits": (replaced("{}", "٣" * 12), ("altered", 0)),
}


def test_tampering_is_found_and_named(tmp_path: Path) -> None:
    """Operations still work and append to the chain. The damage is found again later."""
    with opened("sqlite", tmp_path, audit=True) as place:
        store, log = place.store(), Log(tmp_path)
        use(store)
        sound, head = log.records(), log.records(HEAD)
        assert len(sound) == ENTRIES
        for name, (change, expected) in CASES.items():
            records = dict(sound)
            change(records)
            log.put(records)
            log.put(head, HEAD)
            problem = store.audit.verify().problem
            assert problem is not None, name
            assert (problem.what, problem.seq) == expected, name
            assert store.execute(VIEW).is_error is False
            assert store.audit.verify().problem is not None, name
            assert [entry.operation for entry in store.audit.entries()][-1] == "view", name


def test_an_entry_forged_with_a_correct_hash_is_found(tmp_path: Path) -> None:
    """The hash of the forged entry is correct, so the problem is found in the link to the next entry."""
    with opened("sqlite", tmp_path, audit=True) as place:
        store = place.store()
        use(store)
        log = Log(tmp_path)
        sound = log.records()
        for left_out in ("hash", "prev"):
            line, _, detail = sound[K3].partition("\n")
            said = json.loads(line)
            body = {key: value for key, value in said.items() if key not in {"hash", left_out}}
            body |= {"actor": "user:eve"}
            forged = canonical({**body, "hash": entry_hash(store.id, body)})
            log.put(sound | {K3: f"{forged}\n{detail}"})
            problem = store.audit.verify().problem
            assert problem is not None
            assert (problem.what, problem.seq) == ("altered", {"hash": 4, "prev": 3}[left_out])


def test_a_recorded_head_reveals_a_removed_tail(tmp_path: Path) -> None:
    """A person who can write to the storage can remove the last entries with the head, or rewrite the log.

    A head that was recorded elsewhere reveals both.
    """
    with opened("sqlite", tmp_path, audit=True) as place:
        store = place.store()
        use(store)
        noted = store.audit.verify().head
        assert noted is not None
        use(store)
        assert store.audit.verify(expect=[noted, str(noted)]).problem is None
        log = Log(tmp_path)
        sound, heads = log.records(), log.records(HEAD)
        log.cut_after(5)
        log.put({key: f"5:{json.loads(sound[key_of(5)].partition(chr(10))[0])['hash']}" for key in heads}, HEAD)
        assert store.audit.verify().problem is None
        problem = store.audit.verify(expect=[str(noted)]).problem
        assert problem is not None
        assert str(problem) == "entry 8: missing"
        for kind in (ENTRY, HEAD):
            log.put({}, kind)
        assert store.audit.verify().problem is None
        assert store.audit.verify(expect=[noted]).problem == problem
        use(store)  # starts a new log
        assert store.audit.verify().problem is None
        problem = store.audit.verify(expect=[noted]).problem
        assert problem is not None
        assert (problem.what, problem.seq) == ("altered", 8)
        for text in ("", "1:b", str(noted)[:-1], f"x{noted}"):
            with pytest.raises(InvalidInput, match="SEQ:HASH"):
                store.audit.verify(expect=[text])


@pytest.mark.parametrize("head", ["", "nothing", "3:" + "0" * 64, f"99:{'0' * 64}"])
def test_a_head_record_that_is_wrong_is_found(head: str, tmp_path: Path) -> None:
    with opened("sqlite", tmp_path, audit=True) as place:
        store = place.store()
        use(store)
        log = Log(tmp_path)
        log.put(dict.fromkeys(log.records(HEAD), head), HEAD)
        assert store.audit.verify().problem is not None


@pytest.mark.parametrize("backend", ["sealed sqlite", "sealed directory"])
def test_a_modified_encrypted_entry_is_named(backend: str, tmp_path: Path) -> None:
    """An entry that was replaced by another encrypted entry is named too. A record decrypts only under its own key."""
    with opened(backend, tmp_path, audit=True) as place:
        use(place.store())
    log = Log(tmp_path)
    sound = log.records()
    third, fourth = list(sound)[2:4]
    at = len(sound[third]) // 2
    flipped = sound[third][:at] + ("A" if sound[third][at] != "A" else "B") + sound[third][at + 1 :]
    for changed in ({third: flipped}, {third: sound[fourth], fourth: sound[third]}):
        log.put(sound | changed)
        with opened(backend, tmp_path, audit=True) as place:
            problem = place.store().audit.verify().problem
            assert problem is not None
            assert (problem.what, problem.seq) == ("altered", 3)
            assert place.store().execute(VIEW).is_error is False


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_a_log_deleted_whole_is_found_by_the_doctor(backend: str, tmp_path: Path) -> None:
    """The stored setting says that a chain should exist. A chain of which only the head was removed is found too."""
    with opened(backend, tmp_path) as place:
        store = place.store()
        store.change_settings({"audit": True})
        store.execute({"command": "view", "path": "/memories"})

        def remove(*kinds: str) -> None:
            def work(tx: Transaction) -> None:
                for kind in kinds:
                    for key, _ in list(tx.records(kind)):
                        tx.put_record(kind, key, None)

            place.backend.write(store.id, work)

        remove(HEAD)
        assert [finding.subject for finding in check(place.backend) if finding.code == "audit_wrong"] != []
        assert not store.audit.verify().is_sound
        remove(ENTRY, HEAD)
        assert [finding.subject for finding in check(place.backend) if finding.code == "audit_wrong"] == [
            "entry 1: missing"
        ]
        store.execute(VIEW)  # starts a new log, whose first entry has a digest of the settings
        assert [entry.settings_sha256 is None for entry in store.audit.entries()] == [False]
