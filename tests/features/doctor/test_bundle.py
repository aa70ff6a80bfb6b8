"""The bundle of `doctor` has what a report needs, and no text that a user wrote."""

from __future__ import annotations

import json
import sqlite3
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive.cli.exits import PROBLEMS
from retentive.doctor import check_location
from retentive.doctor.bundle import safe_setting, write_bundle
from retentive.errors import InvalidInput
from retentive.server.calls import ServedLocation
from support.command_line import Ended, process
from support.damage import keys_of, sql
from support.places import COMPARED, opened, place_of
from support.profiles import LONG

PARTS = {"README.txt", "versions.json", "configuration.json", "statistics.json", "findings.json", "errors.json"}
WORD = "canaryquetzal"
"""Part of each planted text. None of them may be in a bundle."""
TEXT, PATH, ACTOR = f"{WORD}text", f"/memories/{WORD}dir/{WORD}path.md", f"user:{WORD}actor"
SETTINGS: dict[str, Any] = {
    "read_only_paths": [f"/memories/{WORD}readonly/**"],
    "allow_write": {f"session:{WORD}writer": [f"/memories/{WORD}writable/**"]},
    "expire_paths": {f"/memories/{WORD}expire/**": 7},
    "review": [f"session:{WORD}reviewed"],
    "trust": {f"session:{WORD}doubted": "unconfirmed"},
    "sensitive_allow": [f"/memories/{WORD}allowed/**", f"{WORD}kind"],
    "search_languages": ["dutch"],
    "max_memories": 77,
    "audit": True,
}


def unpacked(file: Path) -> dict[str, str]:
    """Name and text of each part."""
    if file.name.endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            found = {name: archive.read(name) for name in archive.namelist()}
    else:
        with tarfile.open(file) as archive:
            files = {name: archive.extractfile(name) for name in archive.getnames()}
            found = {name: opened.read() for name, opened in files.items() if opened}
    return {name.removeprefix("retentive-bundle/"): data.decode() for name, data in found.items()}


def plant(place: retentive.Retentive) -> list[str]:
    """Fill two stores, and the records of a server. Each text that a user can write contains the word.

    Returns the secrets and ids that retentive made itself.
    """
    place.create_store(key=f"{WORD}-key", name=f"{WORD}name", description=f"{WORD}description", metadata={WORD: WORD})
    store = place.store(f"{WORD}-key")
    place.store()
    for command in (
        {"command": "create", "path": PATH, "file_text": f"{TEXT} 1"},
        {"command": "str_replace", "path": PATH, "old_str": "1", "new_str": "2"},
        {"command": "create", "path": f"/memories/{WORD}gone.md", "file_text": TEXT},
        {"command": "delete", "path": f"/memories/{WORD}gone.md"},
    ):
        assert not store.execute(command, actor=ACTOR, tool_use_id=f"{WORD}{command['command']}").is_error
    store.change_settings(SETTINGS)
    store.execute({"command": "create", "path": PATH, "file_text": TEXT}, actor=f"session:{WORD}reviewed")
    ids = [store.id, *(each.id for each in store.versions()), *(each.memory_id for each in store.versions())]
    return [*ids, *(each.id for each in store.review.pending()), *plant_server(place)]


def plant_server(place: retentive.Retentive) -> list[str]:
    """Create a key of the server and a webhook, whose records are in the location too."""
    served = ServedLocation(place)
    key = served.keys.create(f"{WORD} agent", scopes=("read",), stores=(f"{WORD}-*",), paths=(f"/memories/{WORD}/**",))
    hook = served.webhooks.create("default", f"https://{WORD}.example/{WORD}", ("memory.created",), name=f"{WORD} hook")
    return [key.text, key.record.id, key.record.digest, key.record.partial_key_hint, hook.secret, hook.id]


@pytest.mark.parametrize("backend", [each for each in COMPARED if each != "memory"])  # that is lost when closed
@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_nothing_a_user_wrote_is_in_it(
    backend: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contents, paths, actors, names, descriptions, labels, ids, patterns of settings, keys and webhooks of a server,
    and the environment are left out."""
    monkeypatch.setenv("RETENTIVE_STORE", f"{WORD}environment")
    monkeypatch.setenv(f"RETENTIVE_{WORD}", f"{WORD}variable")
    for name in (
        "RETENTIVE_AT",
        "RETENTIVE_API_KEY",
        "RETENTIVE_KEYS",
        "RETENTIVE_KEYS_FILE",
        "LOGNAME",
        "USER",
        "HOST",
    ):
        monkeypatch.setenv(name, f"{WORD}{name.lower()}")
    home = tmp_path / f"{WORD}home"
    home.mkdir()
    with opened(backend, home) as place:
        secrets = plant(place)
    at, keys, file = place_of(backend, home), keys_of(backend), tmp_path / f"bundle{ending}"
    write_bundle(file, at, list(check_location(at, keys=keys)), keys=keys)
    parts = unpacked(file)
    assert parts.keys() == PARTS
    forbidden = {WORD, str(tmp_path).lower(), *(each.lower() for each in secrets)}
    assert [(name, word) for name, text in parts.items() for word in forbidden if word in text.lower()] == []
    assert len(forbidden) > 12
    assert file.stat().st_mode & 0o777 == 0o600
    statistics = json.loads(parts["statistics.json"])["stores"]
    assert sorted((each["memories"], each["versions"]) for each in statistics) == [(0, 0), (1, 4)]
    assert {each["code"] for each in json.loads(parts["findings.json"])} == {"healthy"}
    assert json.loads(parts["errors.json"]) == []


def test_the_parts_have_what_a_report_needs(tmp_path: Path) -> None:
    """Versions, the kind of storage, settings with numbers and words, and counts in place of patterns."""
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as place:
        plant(place)
    write_bundle(tmp_path / "b.zip", at, list(check_location(at)))
    parts = {name: json.loads(text) for name, text in unpacked(tmp_path / "b.zip").items() if name.endswith(".json")}
    found = parts["versions.json"]
    assert (found["retentive"], found["sqlite"]) == (retentive.__version__, sqlite3.sqlite_version)
    assert found["dependencies"]["click"]
    configuration = parts["configuration.json"]
    assert configuration["storage"] == "sqlite"
    changed = {name: value for each in configuration["stores"] for name, value in each["changed_settings"].items()}
    assert changed["max_memories"] == 77
    assert changed["search_languages"] == ["dutch"]
    assert changed["sensitive_allow"] == {"hidden": 2}
    assert changed["allow_write"] == {"hidden": 1}
    assert changed.keys() == SETTINGS.keys()


def doctor(directory: Path, at: str, *arguments: str) -> Ended:
    return process(directory, "--at", at, "doctor", *arguments)


# The driver of PostgreSQL tries for half a minute.
@pytest.mark.parametrize("scheme", ["mariadb", "s3", "https", *(["postgresql"] if LONG else [])])
def test_a_location_that_cannot_be_reached(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection string is left out. The code of the error is in the bundle, which is written all the same."""
    at = f"{scheme}://{WORD}user:{WORD}password@127.0.0.1:1/{WORD}database?application_name={WORD}"
    if scheme == "s3":
        at = f"s3://{WORD}bucket/{WORD}?endpoint=http://127.0.0.1:1&allow_http=true&region=us-east-1"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"{WORD}id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{WORD}secret")
    ended = doctor(tmp_path, at, "--bundle", "b.tar.gz")
    assert ended.status != 0
    assert "The bundle is in b.tar.gz\n" in ended.err
    parts = unpacked(tmp_path / "b.tar.gz")
    assert parts.keys() == PARTS
    assert WORD not in "".join(parts.values()).lower()
    assert "127.0.0.1" not in "".join(parts.values())
    assert json.loads(parts["errors.json"])[0]["code"]


def test_damaged_values_are_not_copied(tmp_path: Path) -> None:
    """A value that should be a word of this package may be any text in a damaged database."""
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as place:
        plant(place)
    sql(at, "UPDATE versions SET operation = ?", (f"{WORD}operation",))
    sql(at, "UPDATE memories SET path = ?", (f"/memories/{WORD}/../x",))
    ended = doctor(tmp_path, at, "--bundle", "b.zip")
    assert (ended.status, ended.err) == (PROBLEMS, "The bundle is in b.zip\n")
    parts = unpacked(tmp_path / "b.zip")
    assert WORD not in "".join(parts.values()).lower()
    assert any(each["severity"] == "problem" for each in json.loads(parts["findings.json"]))


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    at, file = f"sqlite:///{tmp_path}/memory.db", tmp_path / "b.zip"
    retentive.open(at).close()
    file.write_text("mine")
    assert doctor(tmp_path, at, "--bundle", "b.zip").status == 2
    assert file.read_text() == "mine"
    with pytest.raises(InvalidInput):
        write_bundle(tmp_path / "b.rar", at, [])


def test_a_bundle_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    retentive.open(at).close()
    monkeypatch.setenv("HOME", str(tmp_path))
    write_bundle("~/b.zip", at, [])
    assert set(unpacked(tmp_path / "b.zip")) == PARTS
    with pytest.raises(InvalidInput, match="already exists"):
        write_bundle("~/b.zip", at, [])


def test_values_of_settings() -> None:
    """Numbers, booleans and known words are copied; texts, lists and mappings are counted."""
    values: list[object] = [5, True, None, "redact", WORD, [WORD, WORD], {WORD: [1]}, ["dutch"], []]
    expected = [5, True, None, "redact", {"hidden": 1}, {"hidden": 2}, {"hidden": 1}, ["dutch"], {"hidden": 0}]
    assert [safe_setting(each) for each in values] == expected
