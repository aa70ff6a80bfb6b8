"""Stores, archives and audit logs of all formats that were ever released are read as they were written.

`tests/corpus/write_formats.py` wrote the files. Newer formats are refused with both numbers.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import retentive
from features.transfer.archives import listed, read, refusal, write
from retentive import Retentive
from retentive.audit import anchor
from retentive.doctor import check_location
from retentive.errors import InvalidInput, UnknownSchema
from retentive.storage.files import layout
from retentive.storage.objects import records
from retentive.storage.sealed import codec, store_seal
from retentive.storage.sealed.keys import KeyRing
from retentive.storage.sql.schema import Schema
from retentive.storage.sqlite.format import SCHEMA
from retentive.sync import state
from retentive.transfer import lines
from retentive.transfer.archive_reader import open_archive
from retentive.transfer.restore import import_whole, restore
from support import servers
from support.format_corpus import DUMPS, FOLDERS, contents, loaded, objects, packed, unpacked
from support.pages import ROOT
from support.places import name_of

PAGE = ROOT / "docs" / "compatibility.md"
NUMBERS = {
    "SQLite": SCHEMA.newest,
    "PostgreSQL": Schema("postgresql").newest,
    "MariaDB": Schema("mariadb").newest,
    "directory": layout.FORMAT,
    "object storage": records.FORMAT,
    "encryption of a store": store_seal.FORMAT,
    "encrypted text": codec.TEXT_HEADER[-1],
    "export, backup": lines.FORMAT,
    "anchors of an audit log": anchor.FORMAT,
    "state of `retentive sync`": state.FORMAT,
}
SUPPORTED = "this version of retentive supports only (format|schema) 1; upgrade retentive"
DATABASES = [f"{name}.sql" for name in DUMPS]
STORES = ["memory.db", "sealed.db", "directory.tar", "objects.tar", *DATABASES]


@pytest.fixture(params=FOLDERS, ids=lambda path: path.name)
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Copy of a folder of the corpus."""
    for each in request.param.iterdir():
        shutil.copyfile(each, tmp_path / each.name)
    (tmp_path / "keys.json").chmod(0o600)
    (tmp_path / "anchor.key").chmod(0o600)
    return tmp_path


def location(corpus: Path, name: str) -> str:
    """The location of a store of a folder; tar files are unpacked, and dumps are loaded into a database."""
    if name in DATABASES:
        backend = name.removesuffix(".sql")
        return loaded(backend, getattr(servers, backend)(), (corpus / name).read_bytes(), name_of(corpus / name))
    if name == "directory.tar":
        with tarfile.open(corpus / name) as archive:
            archive.extractall(corpus / "directory", filter="data")
        return str(corpus / "directory")
    if name == "objects.tar":
        client = objects(f"memory://{corpus.name}{corpus.parent.name}")
        for key, data in unpacked(corpus / name):
            client.put(key, data)
        return f"memory://{corpus.name}{corpus.parent.name}"
    return f"sqlite:///{corpus / name}"


def opened(corpus: Path, name: str) -> Retentive:
    keys = KeyRing.from_file(corpus / "keys.json") if name == "sealed.db" else None
    return retentive.open(location(corpus, name), keys=keys, create=False)


def expected(corpus: Path, name: str = "memory.db") -> Any:
    return json.loads((corpus / "expected.json").read_text("utf-8"))[name]


def test_the_corpus_has_the_present_formats() -> None:
    """A new format number needs a new folder; the number of folders is the number of sets of formats."""
    assert [path.name for path in FOLDERS] == ["1"]
    assert set(NUMBERS.values()) == {1}


@pytest.mark.parametrize("name", STORES)
def test_a_store_is_read_as_it_was_written(corpus: Path, name: str) -> None:
    """The audit log, settings, memories, versions with texts, and proposals."""
    with opened(corpus, name) as place:
        store = place.store("notes")
        assert contents(store) == expected(corpus, name)
        assert store.audit.verify().is_sound


@pytest.mark.parametrize("name", STORES)
def test_a_store_takes_new_changes(corpus: Path, name: str) -> None:
    """Also acceptance of proposals, an undo of an old change, and a check of the whole store afterwards."""
    with opened(corpus, name) as place:
        store = place.store("notes")
        store.edit("/memories/plan.md", "test more", "test", actor="user:ann")
        store.review.accept(None, actor="user:ann", force=True)
        assert store.read("/memories/plan.md") == "proposed instead\n"
        created = next(each for each in store.versions() if each.path == "/memories/empty.md")
        store.undo(created.id, actor="user:ann")
        assert [each.path for each in store.memories() if each.path.endswith("empty.md")] == []
        assert store.audit.verify().is_sound
    if name in {"memory.db", "directory.tar"}:
        at = location(corpus, name) if name == "memory.db" else str(corpus / "directory")
        assert [each.code for each in check_location(at) if each.severity != "ok"] == []


def test_no_text_of_an_encrypted_store_is_in_its_file(corpus: Path) -> None:
    data = (corpus / "sealed.db").read_bytes()
    for word in (b"naive", "naïve".encode(), b"plan.md", b"a proposal", b"test more"):
        assert word not in data


@pytest.mark.parametrize("name", ["export.tar", "export.tar.gz", "backup.tar.gz"])
def test_an_archive_is_imported_as_it_was_written(corpus: Path, name: str) -> None:
    """With the history, the audit log and the proposals."""
    with retentive.open("sqlite://") as place:
        with open_archive(str(corpus / name)) as archive:
            if name.startswith("backup"):
                restore(archive, place.backend)
            else:
                import_whole(archive, place.backend)
        found, wanted = contents(place.store("notes")), expected(corpus)
        assert found["audit"][: len(wanted["audit"])] == wanted["audit"]
        assert found | {"audit": wanted["audit"]} == wanted


def test_an_audit_export_and_its_anchors_still_fit(corpus: Path) -> None:
    lines_of = (corpus / "audit.jsonl").read_text("utf-8").splitlines()
    key = anchor.AnchorKey.read(str(corpus / "anchor.key"))
    with opened(corpus, "memory.db") as place:
        audit = place.store("notes").audit
        assert [line for line in audit.export() if line in lines_of] == lines_of
        last = json.loads(lines_of[-1])
        head = f"{last['seq']}:{last['hash']}"
        assert audit.verify(expect=[head], anchor=str(corpus / "anchors.jsonl"), key=key).is_sound


def newer(corpus: Path) -> Iterator[tuple[str, str]]:
    """Raise the format number of each store, and yield the name of the file and the sentence of the refusal."""
    with closing(sqlite3.connect(corpus / "memory.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 7")
    yield "memory.db", "the storage has schema 7, but"
    with closing(sqlite3.connect(corpus / "sealed.db", isolation_level=None)) as connection:
        connection.execute("UPDATE stores SET seal = json_set(seal, '$.format', 7) WHERE seal IS NOT NULL")
    yield "sealed.db", "the memory store is encrypted in format 7, but"
    for name in DATABASES:
        row = rb"(INSERT INTO \S*retentive_schema\S* VALUES \()1,"
        changed, times = re.subn(row, rb"\g<1>7,", (corpus / name).read_bytes())
        assert times == 1
        (corpus / name).write_bytes(changed)
        yield name, "the storage has schema 7, but"
    rewrite(corpus / "directory.tar", "format", b"1", b"7")
    yield "directory.tar", "the directory has format 7, but"
    rewrite(corpus / "objects.tar", "format", b"1", b"7")
    yield "objects.tar", "the object storage was written in format 7, but"


def rewrite(tar: Path, ending: str, old: bytes, new: bytes) -> None:
    files = {name: data.replace(old, new) if name.endswith(ending) else data for name, data in unpacked(tar)}
    tar.write_bytes(packed(files))


def test_newer_stores_are_refused_with_both_numbers(corpus: Path) -> None:
    refused = []
    for name, sentence in newer(corpus):
        with pytest.raises(UnknownSchema, match=f"^{sentence} {SUPPORTED}$"), opened(corpus, name) as place:
            place.store("notes").read("/memories/plan.md")
        refused.append(name)
    assert sorted(refused) == sorted(STORES)


def test_newer_archives_and_anchors_are_refused_with_both_numbers(corpus: Path) -> None:
    entries = read(corpus / "export.tar")
    first = next(iter(entries))
    about = entries[first].replace(b'"format":1,', b'"format":7,', 1)
    error = refusal(write(corpus / "newer.tar", listed(entries | {first: about})))
    assert isinstance(error, UnknownSchema)
    assert re.fullmatch(f"the file has format 7, but {SUPPORTED}", str(error))
    anchors = (corpus / "anchors.jsonl").read_text("ascii").replace('"format":1', '"format":7')
    (corpus / "anchors.jsonl").write_text(anchors, "ascii")
    key = anchor.AnchorKey.read(str(corpus / "anchor.key"))
    with (
        opened(corpus, "memory.db") as place,
        pytest.raises(InvalidInput, match=f"^the anchor file has format 7, but {SUPPORTED}$"),
    ):
        place.store("notes").audit.verify(anchor=str(corpus / "anchors.jsonl"), key=key)


def test_the_page_has_the_numbers_of_the_code() -> None:
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| ", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {name: int(number) for name, number in rows} == NUMBERS
