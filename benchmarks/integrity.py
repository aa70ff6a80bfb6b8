"""The nine at-rest edits of agent-memory-integrity (PyPI) against an audited store with an anchor.

The package seeds a store through its own API, edits the database behind its back, and asks the store if it noticed. The
edits here are those of an attacker who owns the SQLite file and knows its tables: texts are changed together with their
hashes, sizes and counters. The anchor and its key are kept elsewhere, and the anchor is written after each genuine
change, as a schedule would.

    python benchmarks/integrity.py [--without-anchor]
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT
from agmi.attacks.base import AttackResult

import retentive
from retentive import Retentive
from retentive.audit.anchor import AnchorKey

OURS, OTHER = "agmi-a", "agmi-b"
FORGED_ACTOR = "user:agmi_meta_tampered"
FIELDS = ("id", "memory", "path", "text", "actor", "created_at", "revision", "owner")


class RetentiveAdapter(MemoryAdapter):  # type: ignore[misc]  # the package has no types
    """A record is a memory with its one version, in the order of the versions; a context is a memory store."""

    name = "retentive"
    supports_replay = supports_metadata = supports_snapshot = True
    detection_point = "audit"
    POSITION_KEYS = ("id", "memory", "path", "revision", "created_at", "actor", "owner")

    def __init__(self, *, has_anchor: bool = True) -> None:
        self._has_anchor = has_anchor
        self._place: Retentive | None = None
        self._late = 0

    # -- life of a store

    def setup(self) -> None:
        """Make a new location, a directory elsewhere, and the key."""
        self._directory = Path(tempfile.mkdtemp(prefix="agmi-retentive-"))
        self._db = self._directory / "place" / "memory.db"
        elsewhere = self._directory / "elsewhere"
        elsewhere.mkdir()
        self._anchors, self._key = str(elsewhere / "anchors"), str(elsewhere / "key")
        AnchorKey.create(self._key)
        for key in (OURS, OTHER):
            self._opened().store(key).change_settings({"audit": True})

    def teardown(self) -> None:
        """Remove everything."""
        self.reload()
        shutil.rmtree(self._directory, ignore_errors=True)

    def reload(self) -> None:
        """Close the location; the next call opens it again."""
        if self._place is not None:
            self._place.close()
        self._place = None

    def _opened(self) -> Retentive:
        if self._place is None:
            self._place = retentive.open(f"sqlite:///{self._db}", actor="user:ann", sweep=False)
        return self._place

    def _write(self, key: str, names: list[str]) -> None:
        store = self._opened().store(key)
        for name in names:
            given = {"command": "create", "path": f"/memories/{name}", "file_text": f"{key} {name}\n"}
            assert not store.execute(given).is_error
        store.audit.anchor(self._anchors, self._key)

    def seed(self, n: int) -> None:
        """Write memories through the tool."""
        self._write(OURS, [str(number) for number in range(n)])

    def seed_other(self, n: int) -> None:
        """Write memories to the other store."""
        self._write(OTHER, [str(number) for number in range(n)])

    def append_genuine(self) -> None:
        """Write one more memory, and the anchor of its day."""
        self._late += 1
        self._write(OURS, [f"late-{self._late}"])
        self.reload()

    def verify(self) -> bool:
        """Answer of `retentive admin audit verify`, with the anchor or without."""
        store = self._opened().store(OURS)
        anchor = {"anchor": self._anchors, "key": self._key} if self._has_anchor else {}
        found = store.audit.verify(**anchor)
        versions = {version.id: version.path for version in store.versions()}
        said = [f"{each} ({versions[id_]})" if (id_ := getattr(each, "version_id", "")) in versions else str(each)
                for each in found.findings]  # fmt: skip
        self.verify_detail = "; ".join(said) or None
        return bool(found.is_sound)

    # -- the database, behind the back of the tool

    @contextmanager
    def _raw(self) -> Iterator[sqlite3.Connection]:
        self.reload()
        with closing(sqlite3.connect(self._db)) as connection, connection:
            yield connection

    def _rows(self, key: str) -> list[Record]:
        with self._raw() as connection:
            found = connection.execute(
                "SELECT v.id, v.memory, v.path, CAST(v.text AS TEXT), v.actor, v.created_at, v.revision, s.store_key"
                " FROM versions v JOIN stores s ON s.no = v.store WHERE s.store_key = ? ORDER BY v.id",
                (key,),
            ).fetchall()
        return [Record(seq, dict(zip(FIELDS, row, strict=True))) for seq, row in enumerate(found)]

    def read_all_raw(self) -> list[Record]:
        """All records of our store."""
        return self._rows(OURS)

    def read_other_raw(self) -> list[Record]:
        """All records of the other store."""
        return self._rows(OTHER)

    def write_raw(self, record: Record) -> None:
        """Write a text into the slot of a record, or append a record."""
        present = self.read_all_raw()
        if record.seq < len(present):
            self._put_text(present[record.seq].fields, str(record.fields["text"]))
        else:
            self._insert(present[-1].fields, str(record.fields["text"]))

    def _put_text(self, slot: dict[str, Any], text: str) -> None:
        data = text.encode()
        values = (data, len(data), sha256(data).hexdigest(), slot["id"])
        with self._raw() as connection:
            connection.execute("UPDATE versions SET text = ?, size_bytes = ?, sha256 = ? WHERE id = ?", values)
            _recount(connection)

    def _insert(self, last: dict[str, Any], text: str) -> None:
        """A memory with a version a little later than the last one."""
        at, data = int(last["created_at"]) + 1_000, text.encode()
        version, memory = f"memver_{at:014x}{'0' * 18}", f"mem_{at:014x}{'0' * 18}"
        facts = (len(data), sha256(data).hexdigest())
        with self._raw() as connection:
            store = connection.execute("SELECT no FROM stores WHERE store_key = ?", (OURS,)).fetchone()[0]
            connection.execute(
                "INSERT INTO versions (store, id, memory, operation, path, size_bytes, sha256, actor, created_at,"
                " revision, memories, total_bytes, text)"
                " VALUES (?, ?, ?, 'created', '/memories/forged', ?, ?, ?, ?, ?, 0, 0, ?)",
                (store, version, memory, *facts, last["actor"], at, int(last["revision"]) + 1, data),
            )
            connection.execute(
                "INSERT INTO memories (store, path, newest) VALUES (?, '/memories/forged', ?)", (store, version)
            )
            _recount(connection)

    def delete_raw(self, seq: int) -> None:
        """Delete a memory and its version."""
        slot = self.read_all_raw()[seq].fields
        with self._raw() as connection:
            connection.execute("DELETE FROM versions WHERE id = ?", (slot["id"],))
            connection.execute("DELETE FROM memories WHERE newest = ?", (slot["id"],))
            _recount(connection)

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Copy the text of a genuine record."""
        self._put_text(self.read_all_raw()[victim_seq].fields, str(donor.fields["text"]))

    def read_meta(self, seq: int) -> dict[str, object]:
        """Actor of a record."""
        return {"actor": self.read_all_raw()[seq].fields["actor"]}

    def write_meta(self, seq: int, meta: dict[str, object]) -> None:
        """Change the actor; no column can hold the key that the package adds."""
        actor = FORGED_ACTOR if "agmi_meta_tampered" in meta else meta["actor"]
        slot = self.read_all_raw()[seq].fields
        with self._raw() as connection:
            connection.execute("UPDATE versions SET actor = ? WHERE id = ?", (actor, slot["id"]))

    def snapshot_store(self) -> object:
        """Copy the database."""
        self.reload()
        return self._copy_store(self._db)

    def restore_store(self, token: object) -> None:
        """Put the copy back."""
        self.reload()
        self._restore_store(token, self._db)

    # -- what the package must know of a record

    def mutate_payload(self, record: Record) -> Record:
        """The record with another text."""
        record.fields["text"] = f"{record.fields['text']}forged\n"
        return record

    def owner_of(self, record: Record) -> str:
        """The store of a record."""
        return str(record.fields["owner"])


def _recount(connection: sqlite3.Connection) -> None:
    """Put the totals of a store into its newest version, where they belong."""
    connection.execute(
        "UPDATE versions SET memories = (SELECT count(*) FROM memories m WHERE m.store = versions.store),"
        " total_bytes = (SELECT coalesce(sum(v.size_bytes), 0) FROM memories m JOIN versions v"
        " ON v.store = m.store AND v.id = m.newest WHERE m.store = versions.store)"
        " WHERE id = (SELECT max(x.id) FROM versions x WHERE x.store = versions.store)"
    )


def results(*, has_anchor: bool = True) -> list[AttackResult]:
    """The result of each edit, in the order T1 to T9."""
    return [attack().run(RetentiveAdapter(has_anchor=has_anchor)) for attack in AT_REST_ATTACKS_WITH_SNAPSHOT]


def main() -> int:
    """Print a row for each edit; exit with 1 if one was not detected."""
    parser = argparse.ArgumentParser(description="The nine at-rest edits of agent-memory-integrity.")
    parser.add_argument("--without-anchor", action="store_true", help="verify the log alone")
    found = results(has_anchor=not parser.parse_args().without_anchor)
    for number, result in enumerate(found, start=1):
        answer = result.guard or result.error or result.detail
        print(f"T{number}  {result.attack:<18}{'reported' if result.detected else 'accepted':<10}{answer}")
    detected = sum(result.detected for result in found)
    print(f"{detected} of {len(found)} reported")
    return 0 if detected == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
