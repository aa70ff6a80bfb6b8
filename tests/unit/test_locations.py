"""Locations as people write them: aliases, `~`, and the usual mistakes. No mistake creates anything."""

from __future__ import annotations

from pathlib import Path

import pytest

import retentive
from retentive import InvalidInput, NotFound
from retentive.locations import location_exists, open_backend, parse_location


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty home directory, which is also the current directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_postgres_is_postgresql() -> None:
    rest = "ann:secret@127.0.0.1:1/memory?connect_timeout=2&timeout_s=1"
    for scheme in ("postgres", "postgresql", "Postgres"):
        assert parse_location(f"{scheme}://{rest}") == ("postgresql", rest)
    with pytest.raises(retentive.RetentiveError) as caught:
        open_backend(f"postgres://{rest}")
    assert caught.value.code == "unavailable"


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("mysql://ann@host/memory", "unknown scheme 'mysql'; use a directory, or a URL that starts with"),
        ("nosuch://x", "unknown scheme 'nosuch'; use a directory, or a URL that starts with sqlite://, postgresql://"),
        ("sqlite:m.db", "has no :// after the scheme; use sqlite:///memory.db"),
        ("sqlite:/m.db", "has no :// after the scheme; use sqlite:///memory.db"),
        ("postgres:host", "has no :// after the scheme"),
        ("s3:bucket", "has no :// after the scheme"),
        ("memory.db", "use sqlite:///memory.db, or sqlite:////srv/memory.db for an absolute path"),
        ("some/Memory.SQLite", "use sqlite:///memory.db"),
        (Path("memory.sqlite3"), "use sqlite:///memory.db"),
        ("~nobody-of-this-name/memory", "there is no home directory for the ~ in the path"),
        ("sqlite:///~nobody-of-this-name/m.db", "there is no home directory for the ~ in the path"),
        ("", "is empty or contains a NUL"),
        (5, "must be a path or a URL, not int"),
    ],
)
def test_a_mistake_is_refused_with_the_right_form(home: Path, location: str | Path, said: str) -> None:
    for use in (retentive.open, open_backend, location_exists):
        with pytest.raises(InvalidInput) as caught:
            use(location)
        assert said in str(caught.value)
    assert list(home.iterdir()) == []


def test_a_tilde_is_the_home_directory(home: Path) -> None:
    for location in ("~/memory", "sqlite:///~/memory.db", Path("~/other")):
        assert not location_exists(location)
        with retentive.open(location) as opened:
            opened.store().execute({"command": "create", "path": "/memories/a", "file_text": "x"})
        assert location_exists(location)
    assert sorted(each.name for each in home.iterdir() if "-" not in each.name) == ["memory", "memory.db", "other"]


def test_an_existing_directory_may_have_any_name(home: Path) -> None:
    for name in ("memory.db", "sqlite:m"):
        (home / name).mkdir()
        with retentive.open(f"./{name}") as opened:
            assert opened.store().usage().memories == 0


@pytest.mark.parametrize("location", ["sqlite:///m.db", "notes"])
def test_a_location_opened_read_only_is_not_created(home: Path, location: str) -> None:
    """A check opens the location a moment after it was found; somebody may have moved it away in between."""
    with pytest.raises(NotFound):
        open_backend(location, read_only=True)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("location", ["memory", "sqlite:///memory.sqlite", "sqlite:///empty"])
def test_a_program_that_only_reads_creates_nothing(home: Path, location: str) -> None:
    (home / "empty").touch()
    before = sorted(home.rglob("*"))
    with pytest.raises(NotFound):
        retentive.open(location, create=False)
    assert sorted(home.rglob("*")) == before
    assert (home / "empty").stat().st_size == 0
