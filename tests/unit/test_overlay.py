"""Overlays give the answers of the wrapped snapshot, except for methods that a subclass overrides."""

from __future__ import annotations

import pytest

import retentive
from retentive.engine.pending import with_proposals
from retentive.engine.visibility import Assessment, Filtered, within
from retentive.history.revisions import Past
from retentive.review.proposals import pending
from retentive.storage.contract import Snapshot


@pytest.mark.parametrize("kind", ["trusted", "reached", "proposed", "past"])
def test_a_walk_of_an_overlay_is_a_part_of_its_listing(kind: str) -> None:
    """Listings from any path and with any limit, for any memories that are hidden, added or replaced."""
    paths = [f"/memories/{folder}{name}" for folder in ("", "a/", "a!/", "ab/", "b/") for name in ("0", "1", "x", "ä")]
    with retentive.open("sqlite://") as opened:
        store = opened.store()
        for number, path in enumerate(paths):
            store.create(path, f"text of {path}\n", actor=f"session:{'ab'[number % 2]}")
        end = store.history.log(limit=1)[0].id
        store.rename("/memories/a", "/memories/c", actor="session:a")
        store.delete("/memories/b/x", actor="session:a")
        store.change_settings({"quarantine": ["session:b"], "review": ["session:new"]})
        store.write("/memories/b/0", "other\n", actor="session:new")
        store.create("/memories/b/00", "new\n", actor="session:new")
        settings = store.settings()

        def overlay(snapshot: Snapshot) -> Snapshot:
            if kind == "trusted":
                return Filtered(snapshot, Assessment(snapshot, settings, None).shows, history=False)
            if kind == "reached":
                return within(snapshot, ("/memories/a!", "/memories/c", "/memories/0"))
            if kind == "past":
                return Past(snapshot, end + "~")
            return with_proposals(snapshot, pending(snapshot))

        def check(snapshot: Snapshot) -> int:
            found = overlay(snapshot)
            for under in ("/memories", "/memories/a", "/memories/b", "/memories/c"):
                listed = list(found.list(under, texts=True))
                assert [memory for memory, _ in listed] == [memory for memory, _ in found.list(under)]
                for start in ("", "/memories/a", "/memories/a/0", "/memories/b/00", "/memories/b/x", "~"):
                    rest = [(memory, data) for memory, data in listed if memory.path >= start]
                    for limit in (None, 0, 1, 2, 3, 7, 50):
                        with_texts = found.list(under, start=start, limit=limit, texts=True)
                        without = found.list(under, start=start, limit=limit)
                        assert list(with_texts) == rest[:limit]
                        assert list(without) == [(memory, None) for memory, _ in rest[:limit]]
                        entries = {each.path[len(under) + 1 :].partition("/")[0]: each for each, _ in reversed(rest)}
                        level = [each for each, _ in found.list(under, start=start, limit=limit, one_level=True)]
                        assert level == sorted(entries.values(), key=lambda each: each.path)[:limit]
            return len(list(found.list("/memories")))

        present = store._core.read(check)
    assert present == {"trusted": 9, "reached": 9, "past": 20, "proposed": 20}[kind]
