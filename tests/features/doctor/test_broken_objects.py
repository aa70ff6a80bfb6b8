"""Object storage: missing, modified and unreferenced objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from retentive import Retentive
from retentive.storage.objects.backend import ObjectsBackend
from retentive.storage.objects.snapshot import ObjectsSnapshot
from support.damage import A, codes, fill, look, opened, walked
from support.places import place_of

pytestmark = pytest.mark.long


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Location with two stores, one of which has pages and long records."""
    with opened("s3", tmp_path) as found:
        fill(found.store())
        second = found.store("second")
        walked(second, 5, 150)
        second._core.backend.write(second.id, lambda tx: tx.put_record("proposal.after", "prop_1.0", "x" * 20_000))
        second._core.backend.write(second.id, lambda tx: tx.put_record("proposal.after", "prop_1.0", None))
    return place_of("s3", tmp_path)


def backend_of(found: Retentive) -> ObjectsBackend:
    assert isinstance(found.backend, ObjectsBackend)
    return found.backend


def objects(found: Retentive, kind: str) -> list[str]:
    """Return the keys of the objects of a kind, of the first store that has any."""
    return list(backend_of(found)._requests.names(f"stores/{found.store().id}/{kind}"))


def test_a_missing_text_is_reported_as_object_and_as_memory(place: str) -> None:
    with opened_again(place) as found:
        version = found.store().load(A)[0].version_id
        row: Any = found.store()._core.read(lambda seen: cast("ObjectsSnapshot", seen)._map.get("v" + version))
        assert row.text is not None
        pack = row.text.pack
        backend_of(found)._requests.delete([key for key in objects(found, "packs") if key.endswith(pack)])
    findings = look(place, repair=True)
    assert codes(findings) == {"object_missing", "text_wrong", "old_text_wrong"}
    assert {one.subject for one in findings if one.code == "text_wrong"} == {A}
    assert {one.subject for one in findings if one.code == "object_missing"} == {f"packs/{pack}"}
    assert codes(findings, severity="ok") == {"healthy"}  # the other store


def test_a_damaged_manifest_is_reported_and_the_other_stores_are_checked(place: str) -> None:
    with opened_again(place) as found:
        store_id = found.store().id
        backend_of(found)._requests.put(f"manifests/{store_id}", b"nothing")
    findings = look(place)
    problems = {(one.code, one.store_id) for one in findings if one.severity == "problem"}
    assert problems == {("object_damaged", store_id)}
    assert [one.store_key for one in findings if one.code == "healthy"] == ["second"]


def opened_again(place: str) -> Retentive:
    import retentive

    return retentive.open(place)
