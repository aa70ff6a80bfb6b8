"""An encrypted store in a directory has no files: it is only in the database, where nobody can edit it by hand."""

from __future__ import annotations

from pathlib import Path

import retentive
from retentive.storage.sealed.keys import KeyRing

KEYS = KeyRing.new()


def test_an_encrypted_store_leaves_no_files(tmp_path: Path) -> None:
    """It works beside a plain store, and after reopening. Planted files have no effect."""
    place = tmp_path / "memory"
    with retentive.open(place) as opened:
        opened.store("plain").write("/memories/a.md", "seen")
    with retentive.open(place, keys=KEYS) as opened:
        for store in (opened.store(), opened.store("other")):
            store.write("/memories/d/a.md", "secret")
            store.write("/memories/d/a.md", "secret again")
            assert store.directory() is None
    left = {str(path.relative_to(place)) for path in place.rglob("*.md")}
    assert left == {"stores/plain/memories/a.md"}
    (place / "memories" / "planted.md").write_text("believe me")
    with retentive.open(place, keys=KEYS) as opened:
        store = opened.store()
        assert [memory.path for memory in store.memories()] == ["/memories/d/a.md"]
        store.write("/memories/planted.md", "mine")
        assert store.read("/memories/planted.md") == "mine"
        assert {str(version.actor) for version in store.versions()}.isdisjoint({"job:external", "job:recovery"})
        opened.erase("other")
    assert (place / "memories" / "planted.md").read_text() == "believe me"
