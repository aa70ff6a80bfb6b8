"""The straight line: a create and a view as plain functions over the product's own tables, beside the product.

    python benchmarks/straight.py [--rounds N]

The functions parse, examine, check limits, note provenance, lock, write two rows and commit with full sync. Both take
turns in one process, each on its own file. Prints medians and ratios: at most 1.4 for `create` and 2.0 for `view`.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import sqlite3
import tempfile
import time
from functools import partial
from statistics import median
from typing import IO

import retentive
from retentive.redaction.examiner import TextExaminer
from retentive.values.commands import Create, View, parse
from retentive.values.records import sortable_id
from retentive.values.replies import REPLIES
from retentive.values.settings import DEFAULTS
from retentive.values.text import view

TEXT, EXAMINER = "# Customer 17\n\n- prefers e-mail over the phone\n- pays in euros\n" * 8, TextExaminer()
_HEAD = "SELECT revision, memories, total_bytes FROM versions WHERE store = 1 ORDER BY id DESC LIMIT 1"
_MEMORY = (
    "SELECT v.text, v.sha256 FROM memories m JOIN versions v ON v.store = m.store AND v.id = m.newest"
    " WHERE m.store = 1 AND m.path = ?"
)
_INSERT = (
    "INSERT INTO versions (store, id, memory, operation, path, size_bytes, sha256, created_at, revision, memories,"
    " total_bytes, provenance, text) VALUES (1, ?, ?, 'created', ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def create(database: sqlite3.Connection, lock: IO[str], given: dict[str, object]) -> str:
    """Create a memory; the change is durable when the reply is returned."""
    command = parse(given)
    assert isinstance(command, Create)
    path, data = command.path.text, command.file_text.encode()
    assert EXAMINER.examine(DEFAULTS, command.file_text, path=path).text == command.file_text
    assert len(data) <= DEFAULTS.max_memory_bytes
    fcntl.flock(lock, fcntl.LOCK_EX)
    database.execute("BEGIN IMMEDIATE")
    revision, memories, size = database.execute(_HEAD).fetchone()
    assert memories < DEFAULTS.max_memories
    assert size + len(data) <= DEFAULTS.max_store_bytes
    assert not database.execute(_MEMORY, (path,)).fetchone()
    now = time.time_ns() // 1_000
    version, digest = sortable_id("memver_", now), hashlib.sha256(data).hexdigest()
    provenance = json.dumps({"integration": "python", "by": [[f"{revision:x}", "", "", ""]]})
    row = (version, sortable_id("mem_", now), path, len(data), digest, now, revision + 1, memories + 1)
    database.execute(_INSERT, (*row, size + len(data), provenance, data))
    database.execute("INSERT INTO memories (store, path, newest) VALUES (1, ?, ?)", (path, version))
    database.execute("COMMIT")
    fcntl.flock(lock, fcntl.LOCK_UN)
    return REPLIES.created.format(path=path)


def look(database: sqlite3.Connection, given: dict[str, object]) -> str:
    """View a memory."""
    command = parse(given)
    assert isinstance(command, View)
    data, digest = database.execute(_MEMORY, (command.path.text,)).fetchone()
    assert hashlib.sha256(data).hexdigest() == digest
    header = REPLIES.file_header.format(path=command.path.text)
    return f"{header}\n{view(data, None, max_chars=DEFAULTS.view_chars)[0]}"


parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=2_000)
options = parser.parse_args()
times: dict[str, list[float]] = {name: [] for name in ("create", "create straight", "view", "view straight")}
with tempfile.TemporaryDirectory(dir=".") as folder, open(f"{folder}/lock", "w") as lock:
    with retentive.open(f"sqlite:///{folder}/straight.db") as place:
        place.store().create("/memories/first.md", TEXT)
    database = sqlite3.connect(f"{folder}/straight.db", isolation_level=None)
    database.executescript("PRAGMA synchronous = FULL; PRAGMA secure_delete = ON")
    with retentive.open(f"sqlite:///{folder}/own.db") as own:
        execute, lines = (
            own.store().execute,
            {"create": partial(create, database, lock), "view": partial(look, database)},
        )
        for command, line in lines.items():
            for number in range(options.rounds):
                given = {"command": command, "path": f"/memories/{number}.md"}
                given |= {"file_text": TEXT} if command == "create" else {}
                for name, work in ((command, execute), (f"{command} straight", line)):
                    start = time.perf_counter()
                    work(given)
                    times[name].append(time.perf_counter() - start)
for name in ("create", "view"):
    took, least = (1e6 * median(times[each]) for each in (name, f"{name} straight"))
    print(f"{name:7} {took:6.0f} us, straight {least:6.0f} us, ratio {took / least:.2f}")
