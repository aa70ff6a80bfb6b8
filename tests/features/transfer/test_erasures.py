"""A store that was erased in the source is reported by the next migration, and erased in the target if asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore, Retentive
from retentive.transfer.migrate import migrate, source_erasures
from support.command_line import here
from support.places import LASTING, opened

A = "/memories/a"


def write(store: MemoryStore, path: str = A) -> None:
    assert not store.execute({"command": "create", "path": path, "file_text": "text"}).is_error


@pytest.fixture(params=LASTING)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Retentive]:
    (tmp_path / "source").mkdir()
    with opened(str(request.param), tmp_path / "source") as found:
        yield found


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Retentive]:
    with retentive.open(f"sqlite:///{tmp_path}/target.db") as found:
        yield found


def copied(source: Retentive, target: Retentive) -> None:
    """Two stores, copied; then the first is erased in the source."""
    for key in ("one", "two"):
        write(source.store(key))
    migrate(source.backend, target.backend)
    assert source_erasures(source.backend, target.backend) == []
    source.erase("one")


def found(source: Retentive, target: Retentive, *, erase: bool = False) -> list[tuple[str | None, str]]:
    return [(one.key, one.outcome) for one in source_erasures(source.backend, target.backend, erase=erase)]


def keys(place: Retentive) -> list[str | None]:
    return [info.key for info in place.stores()]


def test_an_erasure_is_reported_and_then_propagated(source: Retentive, target: Retentive) -> None:
    """The report changes nothing, and other stores are kept."""
    copied(source, target)
    assert found(source, target) == [("one", "kept")]
    assert keys(target) == ["one", "two"]
    assert found(source, target, erase=True) == [("one", "erased")]
    assert keys(target) == ["two"]
    assert found(source, target, erase=True) == []


def test_a_store_with_newer_versions_is_kept(source: Retentive, target: Retentive) -> None:
    copied(source, target)
    write(target.store("one"), "/memories/new")
    assert found(source, target, erase=True) == [("one", "newer")]
    assert target.store("one").read("/memories/new") == "text"


def test_a_read_only_store_is_kept(source: Retentive, target: Retentive) -> None:
    copied(source, target)
    target.store("one").change_settings({"read_only_paths": [A]})
    assert found(source, target, erase=True) == [("one", "read_only")]
    assert keys(target) == ["one", "two"]


def test_the_command_reports_and_propagates(tmp_path: Path) -> None:
    """This includes a store that --store names, and a store whose key is in use again."""
    source, target = f"sqlite:///{tmp_path}/s.db", f"sqlite:///{tmp_path}/t.db"
    with retentive.open(source) as place:
        for key in ("one", "two"):
            write(place.store(key))
    assert here(source, "migrate", target).exit_code == 0
    assert here(source, "erase", "--whole-store", "--store", "one", "--yes").exit_code == 0
    told = here(source, "migrate", target)
    assert told.exit_code == 0
    assert "one: erased at the location" in told.stderr
    assert "--propagate-erasures" in told.stderr
    named = here(source, "migrate", target, "--store", "one")
    assert (named.exit_code, named.stdout) == (0, "")
    assert "one: erased at the location" in named.stderr
    with retentive.open(source) as place:
        write(place.store("one"), "/memories/second")
    done = here(source, "migrate", target, "--propagate-erasures", "--json")
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert [(one["key"], one["outcome"]) for one in value["erasures"]] == [("one", "erased")]
    assert sorted(one["key"] for one in value["stores"]) == ["one", "two"]
    with retentive.open(target) as place:
        assert place.store("one").read("/memories/second") == "text"
