"""Writes a folder of tests/corpus/formats with the present formats: `python -m corpus.write_formats`, in tests.

Run it when a format number changes, and keep the older folders: later versions must open them. The keys in the folders
are for tests only.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import retentive
from retentive import MemoryStore
from retentive.audit.anchor import AnchorKey
from retentive.storage.sealed.keys import KeyRing
from retentive.transfer.export import back_up, export_whole
from support import servers
from support.format_corpus import DUMPS, FOLDER, FOLDERS, contents, dumped, objects, packed

PEOPLE = "/memories/people/Zoë 東京.md"


def fill(store: MemoryStore) -> None:
    """Make a history with every operation, text outside ASCII, a redacted version, a deletion and a proposal."""
    store.change_settings({"audit": True, "review": ["session:guest-*"], "max_memories": 500}, actor="user:ann")
    store.create("/memories/plan.md", "1. write\r\n2. test\n", actor="session:s1", source="tool:notes", session="s1")
    store.create(PEOPLE, "naïve café, 日本語, 👩‍🚀, e\u0301\n\ttab and no end of line", actor="session:s2")
    store.create("/memories/empty.md", "", actor="user:ann")
    store.edit("/memories/plan.md", "2. test", "2. test more", actor="session:s1")
    store.insert("/memories/plan.md", 0, "# Plan\n", actor="user:ann")
    secret = store.create("/memories/secret.md", "a text that is redacted later\n", actor="session:s2")
    store.write("/memories/secret.md", "nothing here\n", actor="session:s2")
    store.rename("/memories/secret.md", "/memories/old/no-secret.md", actor="user:ann")
    store.history.redact([secret.version_id], actor="user:ann")
    store.create("/memories/gone.md", "deleted\n", actor="session:s1")
    store.delete("/memories/gone.md", actor="session:s1")
    edited = store.append(PEOPLE, "\nundone\n", actor="session:s2")
    store.undo(edited.version_id, actor="user:ann")
    store.create("/memories/proposed.md", "a proposal\n", actor="session:guest-1")
    store.write("/memories/plan.md", "proposed instead\n", actor="session:guest-1")


def is_stored(path: Path) -> bool:
    """Return whether a file is part of the store. A reserve only keeps space free."""
    return path.is_file() and not path.name.endswith("-reserve")


def written(at: str, keep: Callable[[], object], **options: Any) -> dict[str, Any]:
    """Write a store at a location, keep its bytes, and return what a reader finds in it. Reading adds to its log."""
    with retentive.open(at, **options) as place:
        fill(place.store("notes", name="Notes"))
    keep()
    with retentive.open(at, **options) as place:
        return contents(place.store("notes"))


def write_formats(folder: Path, scratch: Path) -> Mapping[str, Any]:
    """Write all files of a folder, and return the contents of each store."""
    key = folder / "keys.json"
    key.write_text(KeyRing.new().to_text(), "ascii")
    keys = KeyRing.from_text(key.read_text("ascii"))
    plain, sealed = f"sqlite:///{scratch}/memory.db", f"sqlite:///{scratch}/sealed.db"

    def keep_plain() -> None:
        keep_anchors(plain, folder)
        shutil.copyfile(scratch / "memory.db", folder / "memory.db")

    def keep_directory() -> None:
        below = scratch / "directory"
        files = {str(path.relative_to(below)): path.read_bytes() for path in below.rglob("*") if is_stored(path)}
        (folder / "directory.tar").write_bytes(packed(files))

    def keep_objects() -> None:
        client = objects("memory://corpus")
        names = [found["path"] for found in client.list().collect()]
        (folder / "objects.tar").write_bytes(packed({name: bytes(client.get(name).bytes()) for name in names}))

    expected = {
        "memory.db": written(plain, keep_plain),
        "sealed.db": written(
            sealed, partial(shutil.copyfile, scratch / "sealed.db", folder / "sealed.db"), keys=keys, seal_paths=True
        ),
        "directory.tar": written(str(scratch / "directory"), keep_directory),
        "objects.tar": written("memory://corpus", keep_objects),
    }
    expected |= {f"{name}.sql": written_on_server(name, folder) for name in DUMPS}
    with retentive.open(plain) as place:
        back_up(place.backend, str(folder / "backup.tar.gz"))
        for name in ("export.tar", "export.tar.gz"):
            export_whole(place.store("notes"), str(folder / name), records=True)
    return expected


def written_on_server(name: str, folder: Path) -> dict[str, Any]:
    """Write a store into a new database of a server, and keep a dump of the database as SQL."""
    server = getattr(servers, name)()
    at = server.new_database("formats")
    return written(at, lambda: (folder / f"{name}.sql").write_bytes(dumped(name, server, "formats")))


def keep_anchors(at: str, folder: Path) -> None:
    """Write the audit log, and an anchor of it with its key."""
    with retentive.open(at) as place:
        audit = place.store("notes").audit
        audit.anchor(str(folder / "anchors.jsonl"), AnchorKey.create(str(folder / "anchor.key")))
        (folder / "audit.jsonl").write_text("".join(f"{line}\n" for line in audit.export()), "utf-8")


def main() -> None:
    """Write the next folder, or the one with the number that is given."""
    number = sys.argv[1] if len(sys.argv) > 1 else str(len(FOLDERS) + 1)
    folder = FOLDER / number
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        expected = write_formats(folder, Path(scratch))
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
