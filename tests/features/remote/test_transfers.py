"""Exports and imports with the URL of a server do what they do with the storage itself."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import retentive
from retentive import MemoryStore, errors
from retentive.cli.app import app
from retentive.remote.store import RemoteStore
from retentive.storage.capabilities import below_encryption
from retentive.storage.sqlite.backend import SqliteBackend
from retentive.transfer.archive import open_archive
from retentive.transfer.export import export_files, export_whole
from retentive.transfer.import_files import FileOutcome, Source, directory_source, import_files
from support.commands import tree
from support.damage import fill
from support.http_api import Api


@pytest.fixture
def filled(local: MemoryStore) -> MemoryStore:
    fill(local)
    return local


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Files that can be memories, and others."""
    root = tmp_path / "files"
    for name, data in {"a.md": b"one\n", "d/b ü.md": b"zwei", "binary": b"\xff", "100%": b"x", "back\\slash": b"x",
                       ".git/config": b"x", "large": b"x" * 2_000, "fixed/c": b"x"}.items():  # fmt: skip
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "link").symlink_to("/etc/passwd")
    return root


def outcomes(store: MemoryStore, source: Source, **options: Any) -> list[FileOutcome]:
    return import_files(store, source, under="/memories/in", **options).files


def test_a_directory_is_imported_alike(api: Api, store: MemoryStore, files: Path) -> None:
    """The same outcomes in the same order, and the same memories; the actor is that of the request."""
    expected = api.place.opened.store(f"expected {store.key}"[-200:])
    for each in (store, expected):
        each.change_settings({"max_memory_bytes": 1_000, "read_only_paths": ["/memories/in/fixed/**"]})
    dry = outcomes(store, directory_source(str(files)), dry_run=True)
    assert tree(store) == {}
    assert outcomes(store, directory_source(str(files))) == outcomes(expected, directory_source(str(files))) == dry
    assert tree(store) == tree(expected)
    assert outcomes(store, directory_source(str(files))) == outcomes(expected, directory_source(str(files)))
    (files / "a.md").write_text("two\n")
    for overwrite in (False, True):
        found = outcomes(store, directory_source(str(files)), overwrite=overwrite)
        assert found == outcomes(expected, directory_source(str(files)), overwrite=overwrite)
    assert tree(store) == tree(expected)
    assert {each.actor and each.actor.kind for each in store.versions()} == {"api_key"}


@pytest.mark.parametrize("name", ["a.tar", "a.tar.zst"])
def test_an_archive_is_that_of_the_storage(store: MemoryStore, filled: MemoryStore, tmp_path: Path, name: str) -> None:
    found = export_whole(store, str(tmp_path / name))
    (tmp_path / "local").mkdir()
    assert found == export_whole(filled, str(tmp_path / "local" / name))
    with open_archive(str(tmp_path / name)) as archive, open_archive(str(tmp_path / "local" / name)) as expected:
        lines, wanted = (
            [line for _, found in each.stores([filled.id]) for line in found] for each in (archive, expected)
        )
        assert (archive.headers, lines) == (expected.headers, wanted)
    with pytest.raises(errors.AlreadyExists):
        export_whole(store, str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == [name, "local"]


def test_damaged_memories_are_left_out(api: Api, store: MemoryStore, filled: MemoryStore, tmp_path: Path) -> None:
    """And an archive that would be incomplete is not written."""
    sqlite = below_encryption(api.place.opened.backend)
    assert isinstance(sqlite, SqliteBackend)
    damage = "UPDATE versions SET text = ? WHERE path = ? AND text IS NOT NULL AND store = (SELECT max(no) FROM stores)"
    sqlite.transact(lambda connection: connection.run(damage, (b"other", "/memories/a.md")))
    found = export_files(store, str(tmp_path / "a"))
    assert (found.left_out, found.damaged) == ([("/memories/a.md", "its text is damaged")], 1)
    with pytest.raises(errors.Damaged):
        export_whole(store, str(tmp_path / "a.tar"))
    assert os.listdir(tmp_path) == ["a"]


def test_names_that_leave_the_directory_are_refused(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that sends them writes nothing."""
    for names in (["memories/../../up"], ["/etc/x"], ["other"], ["memories/a"], ["memories/l"]):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                info.type = tarfile.SYMTYPE if name.endswith("/l") else tarfile.REGTYPE
                archive.addfile(info)
        data = raw.getvalue()
        monkeypatch.setattr(RemoteStore, "download", lambda _, sink, data=data, **__: sink.write(data))
        with pytest.raises(errors.Damaged, match="the server sent"):
            export_files(store, str(tmp_path / "a"))
    assert os.listdir(tmp_path) == []


def cli(url: str, *arguments: str, **env: str) -> Result:
    return CliRunner().invoke(app, ["--at", url, *arguments], env=env)


def test_the_command_line(api: Api, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`export` and `import` print the same and end with the same status."""
    monkeypatch.chdir(tmp_path)
    place = f"sqlite:///{tmp_path}/local.db"
    env, key = {"RETENTIVE_API_KEY": api.key}, "command line"

    def both(*arguments: str) -> str:
        found, expected = cli(api.url, "--store", key, *arguments, **env), cli(place, "--store", key, *arguments)
        assert (found.exit_code, found.stderr) == (expected.exit_code, expected.stderr), found.output
        assert found.stdout == expected.stdout
        return found.stdout

    assert "created" in both("import", str(files), "--dry-run")
    both("import", str(files))
    both("--json", "import", str(files), "--overwrite", "--under", "/memories/x")
    both("import", "nothing")
    assert cli(api.url, "--store", key, "export", "whole.tar.zst", **env).stdout.startswith(
        "Exported 10 memories and 10 versions"
    )
    assert cli(api.url, "--store", key, "export", "directory", **env).exit_code == 0
    both("export", "directory")
    both("import", "whole.tar.zst", "--under", "/memories/again")
    with retentive.open(place) as opened:
        export_whole(opened.store(key), str(tmp_path / "history.tar"))
    assert cli(api.url, "import", "--whole", "history.tar", **env).exit_code == 2
    (tmp_path / "broken.tar").write_bytes((tmp_path / "history.tar").read_bytes()[:-700])
    both("import", "broken.tar")
