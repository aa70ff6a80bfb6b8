"""A check during writes reports no false problems."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from retentive import Retentive
from support.damage import codes, keys_of, look, opened
from support.places import place_of
from support.profiles import LONG

CHECKS = 8 if LONG else 4  # the history grows during the check
BACKENDS = ["sqlite", "directory", "sealed directory"]
if LONG:
    BACKENDS += ["postgresql", "mariadb", "s3"]


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
