"""Files of exports and backups."""

from __future__ import annotations

from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.transfer.archive import open_archive
from retentive.transfer.restore import restore
from support.console import Person
from support.http_api import Api


@pytest.mark.parametrize(
    ("wanted", "start"), [("tar.zst", b"\x28\xb5\x2f\xfd"), ("tar", b"retentive-archive.json"), ("files", b"")]
)
def test_an_export_has_each_format(person: Person, store: MemoryStore, at: str, wanted: str, start: bytes) -> None:
    assert f"{at}/export?format={wanted}" in person.get(f"{at}/manage").links
    file = person.http.get(f"{at}/export?format={wanted}")
    assert file.content.startswith(start)
    assert (b"plain" in file.content) == (wanted != "tar.zst")
    assert file.headers["content-disposition"].startswith("attachment")
    assert file.headers["content-security-policy"].startswith("sandbox")
    assert person.http.get(f"{at}/export?format=zip").status_code == 400


def test_a_backup_has_the_stores_of_the_key_and_can_be_restored(
    api: Api, person: Person, store: MemoryStore, tmp_path: Path
) -> None:
    store.change_settings({"audit": True})
    other = Person(api.with_key("admin", stores=(store.id,)))
    assert "/console/backup" in other.get("/console/").links
    file = tmp_path / "saved.tar.zst"
    file.write_bytes(other.http.get("/console/backup").content)
    with open_archive(str(file)) as archive, retentive.open(f"sqlite:///{tmp_path}/m.db") as opened:
        done = restore(archive, opened.backend).stores
        assert [each.id for each in done] == [store.id]
        assert archive.location is None  # no hashes of keys, not even of this workspace
        assert opened.store(store.id).read("/memories/b.txt") == "plain\n"
    assert "backup" in [each.operation for each in store.audit.entries()]
    nobody = Person(api.with_key("admin", stores=("memstore_other",)))
    assert nobody.http.get("/console/backup").status_code == 400  # not the stores of others
