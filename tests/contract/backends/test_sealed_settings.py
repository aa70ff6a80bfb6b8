"""The settings of an encrypted store are encrypted too. A change to the database cannot read or forge them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import retentive
from retentive import Retentive
from retentive.storage.sealed.keys import KeyRing

KEYS = KeyRing.new()
SECRET = "/memories/very-secret-project/**"
VIEW = {"command": "view", "path": "/memories"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with opened(tmp_path / "m.db") as place:
        place.store("one").change_settings({"read_only_paths": [SECRET]})
        place.store("two").change_settings({"read_only": True})
    return tmp_path / "m.db"


def opened(file: Path) -> Retentive:
    return retentive.open(f"sqlite:///{file}", keys=KEYS)


def sql(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


def test_settings_are_read_again_and_stored_encrypted(file: Path) -> None:
    with opened(file) as place:
        assert place.store("one").settings().read_only_paths == (SECRET,)
        assert place.store("two").settings().read_only
        at_rest = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"very-secret-project" not in at_rest
    assert b"read_only" not in at_rest.replace(b"read_only_paths TEXT", b"")


@pytest.mark.parametrize(
    "forged",
    [
        "settings = '{\"read_only\": false}'",
        "settings = (SELECT o.settings FROM stores o WHERE o.store_key = 'two')",
        "settings = substr(settings, 1, length(settings) - 4)",
        "settings = 'AAAA' || substr(settings, 5)",
        "settings = ''",
    ],
)
def test_forged_settings_are_damage(forged: str, file: Path) -> None:
    """The stored settings are plain, truncated, modified or from another store. No command runs with them."""
    sql(file, f"UPDATE stores SET {forged} WHERE store_key = 'one'")
    with opened(file) as place:
        reply = place.store("one").execute(VIEW)
        assert (reply.is_error, reply.code) == (True, "damaged")
        create = {"command": "create", "path": "/memories/very-secret-project/a", "file_text": "x"}
        assert place.store("one").execute(create).code == "damaged"
        assert place.store("two").execute(VIEW).is_error is False
