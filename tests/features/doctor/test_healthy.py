"""An intact location is healthy on every backend, and a check writes nothing."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from retentive import Retentive
from retentive.doctor import check, check_location
from support.damage import codes, fill, keys_of, look, walked
from support.places import EVERYWHERE, LASTING, opened, place_of
from support.profiles import LONG

STEPS = 400 if LONG else 60


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_an_open_location_is_healthy_after_a_random_walk(backend: str, tmp_path: Path) -> None:
    """Each store has only the finding `healthy`, with the correct counts."""
    with opened(backend, tmp_path) as place:
        walked(place.store(), 3, STEPS)
        fill(place.store("second"))
        first = place.store()
        found = {finding.store_id: finding for finding in check(place.backend)}
        assert [finding.code for finding in found.values()] == ["healthy", "healthy"]
        usage, versions = first.usage(), len(list(first.versions()))
        assert found[first.id].subject == f"{usage.memories} memories, {versions} versions"
        assert {finding.store_key for finding in found.values()} == {"default", "second"}


@pytest.mark.parametrize("backend", [*LASTING, "sealed directory", *(["sealed sqlite", "sealed s3"] if LONG else [])])
def test_a_closed_location_is_healthy(backend: str, tmp_path: Path) -> None:
    """The location is given by its URL. Quick checks and repairs find it healthy too."""
    place = place_of(backend, tmp_path)
    with opened(backend, tmp_path) as found:
        fill(found.store())
    keys = keys_of(backend)
    for options in ({}, {"quick": True}, {"repair": True}):
        assert [one.code for one in check_location(place, keys=keys, **options)] == ["healthy"]  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["sqlite", "directory"])
def test_a_check_changes_no_byte(backend: str, tmp_path: Path) -> None:
    """The database and the files stay the same. External edits are not recorded."""
    place = place_of(backend, tmp_path)
    with opened(backend, tmp_path) as found:
        fill(found.store())
    if backend == "directory":
        (tmp_path / "memory" / "memories" / "a.md").write_text("by hand")
    before = everything(tmp_path)
    look(place)
    assert {name: digest for name, digest in everything(tmp_path).items() if name in before} == before
    with opened(backend, tmp_path) as found:
        assert len(list(found.store().versions("/memories/a.md"))) == 2


def everything(directory: Path) -> dict[str, str]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def test_an_encrypted_store_without_its_key_is_reported_as_not_checked(tmp_path: Path) -> None:
    with opened("sealed sqlite", tmp_path) as found:
        fill(found.store())
    findings = look(place_of("sealed sqlite", tmp_path))
    assert codes(findings, severity="note") == {"locked"}
    assert codes(findings) == codes(findings, severity="ok") == set()


CHECKS = 8 if LONG else 4  # the history grows during the check
BACKENDS = ["sqlite", "directory"]
if LONG:
    BACKENDS += ["sealed directory", "postgresql", "mariadb", "s3"]


def work(place: Retentive, number: int, stop: threading.Event) -> None:
    """Create, edit, rename and delete until `stop` is set."""
    store = place.store()
    turn = 0
    while not stop.is_set():
        turn += 1
        path, moved = f"/memories/w{number}/{turn % 7}/a.md", f"/memories/w{number}/{turn % 5}/b.md"
        store.execute({"command": "create", "path": path, "file_text": f"{turn}\n" * (turn % 50)})
        store.execute({"command": "insert", "path": path, "insert_line": 0, "insert_text": "more"})
        store.execute({"command": "rename", "old_path": path, "new_path": moved})
        store.execute({"command": "delete", "path": moved})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_location_in_use_has_no_problems(backend: str, tmp_path: Path) -> None:
    """Each check reads one consistent state of the store and of the files."""
    at, keys = place_of(backend, tmp_path), keys_of(backend)
    stop = threading.Event()
    with opened(backend, tmp_path) as place:
        place.store()
        workers = [threading.Thread(target=work, args=(place, number, stop)) for number in range(3)]
        for worker in workers:
            worker.start()
        try:
            for _ in range(CHECKS):
                findings = look(at, keys=keys)
                assert codes(findings) == set(), findings
                noted = codes(findings, severity="note")
                # A file that a command is writing during the check may look like a foreign file.
                assert noted <= {"file_foreign"}, findings
        finally:
            stop.set()
            for worker in workers:
                worker.join(60)
    assert codes(look(at, keys=keys, repair=True)) == set()
