"""Single corruptions of stored memory stores: generated from a seed, and the same in each run.

`Rows` corrupts the tables of a database: rows are lost; columns flip a bit, become null, or get the value of another
row. `Bytes` flips, cuts, removes and swaps files or objects.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias
from unittest.mock import patch

import retentive
from retentive import MemoryStore, Retentive
from retentive.errors import RetentiveError
from retentive.storage.contract import Backend, Clock, Snapshot, sortable_id
from retentive.storage.sql.connection import Value
from retentive.values.paths import visible

from .damage import fill, walked

Texts: TypeAlias = dict[tuple[str, str, str], bytes | None]
"""Text by store, kind (`path` or `version`), and path or version id."""
Dump: TypeAlias = dict[str, list[tuple[Value, ...]]]
"""Rows by table."""
COLUMNS = {
    "stores": "no id workspace store_key name created_at seal settings properties token erased_at erased_by",
    "memories": "store path newest",
    "versions": "store id memory operation path size_bytes sha256 actor created_at revision memories total_bytes seal"
    " redacted_at redacted_by provenance text_of text",
    "records": "store kind name value",
}
_KEYS = {
    "stores": ("no",),
    "memories": ("store", "path"),
    "versions": ("store", "id"),
    "records": ("store", "kind", "name"),
}
_NULLABLE = {
    "stores": {"store_key", "seal", "settings", "properties", "token", "erased_at", "erased_by"},
    "versions": {
        "size_bytes",
        "sha256",
        "actor",
        "seal",
        "redacted_at",
        "redacted_by",
        "provenance",
        "text_of",
        "text",
    },
}


@contextmanager
def reproducible(seed: str) -> Iterator[Clock]:
    """Context in which ids, object names and times are the same in each run. Yields the clock for locations."""
    ticks = count(1_700_000_000_000)
    with (
        _in_this_thread(os, "urandom", random.Random(seed).randbytes),
        _in_this_thread(time, "time", lambda: 1_700_000_000.0),
    ):
        yield lambda: next(ticks) / 1_000


@contextmanager
def _in_this_thread(module: ModuleType, name: str, fixed: Callable[..., Any]) -> Iterator[None]:
    """Replace a function, only for calls in this thread. Threads that other tests left running would use up values."""
    usual, this = getattr(module, name), threading.get_ident()

    def chosen(*args: Any) -> Any:
        return (fixed if threading.get_ident() == this else usual)(*args)

    with patch.object(module, name, chosen):
        yield


def open_reproducibly(place: str, clock: Clock) -> Retentive:
    """Open a location in the context of `reproducible`."""
    return retentive.open(place, clock=clock, new_id=new_id)


def new_id(prefix: str, at: int) -> str:
    """New id. SQL backends inline `sortable_id` itself, with an `urandom` that cannot be replaced."""
    return sortable_id(prefix, at)


def fill_stores(store: MemoryStore, other: MemoryStore) -> None:
    """Two stores: one with each kind of row, with settings, a proposal and its texts; one after a random walk."""
    fill(store)
    store.change_settings({"review": ["session:*"], "view_chars": 9_000})
    given = {"command": "str_replace", "path": "/memories/c.md", "old_str": "bee", "new_str": "bees"}
    assert not store.execute(given, actor="session:s1").is_error
    walked(other, 11, 40)


class Impossible(Exception):
    """The database refuses a corruption."""


@dataclass(frozen=True)
class Corruption:
    """One change of the stored data. `where` is a column, a table or a kind of file; `named` are its ids and paths."""

    where: str
    how: str
    named: tuple[str, ...]
    apply: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.where} {self.how} ({', '.join(self.named)})"


# -- databases -----------------------------------------------------------------------------------------------


class Rows(ABC):
    """The rows of a database of memory stores."""

    @abstractmethod
    def run(self, *statements: tuple[str, Sequence[Value]]) -> None:
        """Run statements in one transaction. Raises `Impossible` if the database refuses one."""

    @abstractmethod
    def select(self, statement: str) -> list[tuple[Value, ...]]:
        """Rows of a statement."""

    def dump(self) -> Dump:
        """All rows, in a fixed order."""
        return {
            table: sorted(self.select(f"SELECT {', '.join(names.split())} FROM {table}"), key=repr)
            for table, names in COLUMNS.items()
        }

    def corruptions(self, seed: str) -> Iterator[Corruption]:
        """Corruptions without an end: each column and each table in turn, with random rows."""
        dump, chosen = self.dump(), random.Random(seed)
        places = [(table, name) for table in COLUMNS for name in ("", *COLUMNS[table].split()) if dump[table]]
        while True:
            chosen.shuffle(places)
            for table, name in places:
                rng = random.Random(chosen.random())  # a value of another length leaves the next corruptions the same
                row = dict(zip(COLUMNS[table].split(), rng.choice(dump[table]), strict=True))
                if not name:
                    yield self._removal(table, row)
                elif (made := self._change(table, name, row, dump, rng)) is not None:
                    yield made

    def _removal(self, table: str, row: dict[str, Value]) -> Corruption:
        where, values = _where(table, row)
        return Corruption(table, "row lost", _named(row), partial(self.run, (f"DELETE FROM {table} {where}", values)))

    def _change(
        self, table: str, name: str, row: dict[str, Value], dump: Dump, rng: random.Random
    ) -> Corruption | None:
        at = COLUMNS[table].split().index(name)
        others = sorted({each[at] for each in dump[table]} - {row[name]}, key=repr)
        choices: list[tuple[str, Value]] = [("bit flipped", flipped(row[name], rng))] if row[name] is not None else []
        choices += [("null", None)] if name in _NULLABLE.get(table, ()) and row[name] is not None else []
        choices += [("of another row", rng.choice(others))] if others else []
        choices = [(how, value) for how, value in choices if value is not None or name in _NULLABLE.get(table, ())]
        if not choices:
            return None
        how, value = rng.choice(choices)
        where, values = _where(table, row)
        named = (*_named(row), *([str(value)] if isinstance(value, str | int) else []))
        statement = f"UPDATE {table} SET {name} = ? {where}"
        return Corruption(f"{table}.{name}", how, named, partial(self.run, (statement, (value, *values))))


class SqliteRows(Rows):
    """Rows of a file that no process has open."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def run(self, *statements: tuple[str, Sequence[Value]]) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            for statement, values in statements:
                try:
                    connection.execute(statement, values)
                except sqlite3.IntegrityError as error:
                    raise Impossible from error

    def select(self, statement: str) -> list[tuple[Value, ...]]:
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(statement).fetchall()

    def forget_marks(self) -> None:
        """Remove the stamps of files, which differ in each run and do not fit to files in a copy."""
        self.run(("DELETE FROM files", ()))
        with closing(sqlite3.connect(self.file)) as connection:
            connection.execute("VACUUM")


def flipped(value: Value, rng: random.Random) -> Value:
    """A value with one bit flipped."""
    match value:
        case int():
            return value ^ (1 << rng.randrange(63))
        case bytes():
            return flip_bit(value, rng) if value else b"\1"
        case str():
            at = rng.randrange(len(value) or 1)
            return value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :] if value else "\1"
    return None


def flip_bit(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _where(table: str, row: dict[str, Value]) -> tuple[str, list[Value]]:
    names = _KEYS[table]
    return "WHERE " + " AND ".join(f"{name} = ?" for name in names), [row[name] for name in names]


def _named(row: dict[str, Value]) -> tuple[str, ...]:
    ids = ("id", "path", "memory", "version", "name", "no")
    return tuple(str(row[name]) for name in ids if row.get(name))


# -- files and objects ---------------------------------------------------------------------------------------


class Bytes:
    """Files or objects by name, with functions to read, write and remove them."""

    def __init__(
        self,
        names: Sequence[str],
        read: Callable[[str], bytes],
        write: Callable[[str, bytes | None], None],
        kind_of: Callable[[str], str],
    ) -> None:
        self._names, self._read, self._write, self._kind_of = names, read, write, kind_of

    def corruptions(self, seed: str) -> Iterator[Corruption]:
        """Corruptions without an end, each kind of file in turn."""
        chosen = random.Random(seed)
        kinds: dict[str, list[str]] = {}
        for name in sorted(self._names):
            kinds.setdefault(self._kind_of(name), []).append(name)
        while True:
            for kind, names in kinds.items():
                for how in ("bit flipped", "cut", "lost", "of another", "empty"):
                    rng = random.Random(chosen.random())
                    name = rng.choice(names)
                    data, other = self._read(name), self._read(rng.choice(names))
                    made = {
                        "bit flipped": flip_bit(data, rng) if data else b"\1",
                        "cut": data[: rng.randrange(len(data) or 1)],
                        "lost": None,
                        "of another": other,
                        "empty": b"",
                    }[how]
                    if made != data:
                        yield Corruption(kind, how, (name,), partial(self._write, name, made))


def copied(base: Path, target: Path) -> Path:
    """A fresh copy of a location on this machine."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(base, target, symlinks=True)
    return target


# -- readable texts ------------------------------------------------------------------------------------------


def texts_of(place: str, paths: Sequence[str], version_ids: Sequence[str]) -> Texts:
    """Every text that can be read, by path and by version. Opening a directory records external edits."""
    try:
        with retentive.open(place, sweep=False) as found:
            return texts_in(found.backend, [info.id for info in found.stores()], paths, version_ids)
    except RetentiveError:
        return {}


def texts_in(backend: Backend, store_ids: Iterable[str], paths: Sequence[str], version_ids: Sequence[str]) -> Texts:
    """Every text of stores that can be read."""
    texts: Texts = {}
    for store_id in store_ids:
        with suppress(RetentiveError):
            texts |= backend.read(store_id, partial(_texts, store_id, paths, version_ids))
    return texts


def _texts(store_id: str, paths: Sequence[str], version_ids: Sequence[str], snapshot: Snapshot) -> Texts:
    texts: Texts = {}
    for path in paths:
        with suppress(RetentiveError):
            texts[store_id, "path", path] = snapshot.get(path).data
    for version_id in version_ids:
        with suppress(RetentiveError):
            texts[store_id, "version", version_id] = snapshot.version(version_id)[1]
    return {key: text for key, text in texts.items() if text is not None}


def is_named(corruption: Corruption, findings: Sequence[Any]) -> bool:
    """True if a finding names what was corrupted: an id or a path in its subject, or its store."""
    told = [f"{one.subject} {one.store_id} {one.store_key}" for one in findings]
    return any(
        re.search(rf"(?<!\w){re.escape(visible(name))}(?!\w)", each) for name in corruption.named for each in told
    )
