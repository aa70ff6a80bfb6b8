"""A backup during writes contains one consistent state of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

import retentive
from retentive.transfer.archive import open_archive
from retentive.transfer.export import back_up, export_files, export_whole
from retentive.transfer.restore import restore
from support.places import place_of

from .writers import QUICK, WRITERS, Writers


@pytest.mark.parametrize("kind", QUICK)
def test_an_export_during_writes_is_one_revision(kind: str, tmp_path: Path) -> None:
    """A backup, an export and plain files each contain one consistent revision, at least as new as their start."""
    with retentive.open(place_of(kind, tmp_path)) as opened:
        store = opened.store()
        with Writers(store) as writers:
            seen = list(writers.done)
            (backup,) = back_up(opened.backend, str(tmp_path / "b.tar"))
            export = export_whole(store, str(tmp_path / "e.tar.gz"))
            files = export_files(store, str(tmp_path / "files"))
            writers.go_on(1)
        now = store._core.backend.read(store.id, lambda snapshot: snapshot.state.revision)
        assert 0 < backup.revision <= export.revision <= files.revision <= now
        expected = {version.id: version for version in store.versions()}
    for name, made in (("b.tar", backup), ("e.tar.gz", export)):
        with retentive.open("sqlite://") as target, open_archive(str(tmp_path / name)) as archive:
            restore(archive, target.backend)
            copy = target.store()
            versions = list(copy.versions())
            assert all(expected[version.id] == version for version in versions)
            assert {id_ for id_, version in expected.items() if version.revision <= made.revision} == {
                version.id for version in versions
            }
            check(seen, {memory.path[-1]: copy.read(memory.path) for memory in copy.memories()})
    check(seen, {path.name: path.read_text() for path in (tmp_path / "files").iterdir()})


def check(seen: list[int], texts: dict[str, str]) -> None:
    assert set(texts) == {str(number) for number in range(WRITERS)}
    for name, text in texts.items():
        assert text == "".join(f"{line}\n" for line in range(text.count("\n")))
        assert text.count("\n") >= seen[int(name)]
