"""`retentive audit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from retentive.audit.entries import key_of

from cli.running import here

from .logs import Log


@pytest.fixture
def at(tmp_path: Path) -> str:
    """A place with an audited store, used a little."""
    place = f"sqlite:///{tmp_path}/memory.db"
    for arguments in (
        ["create", "/memories/a.md", "one"],
        ["settings", "set", "audit=true"],
        ["view", "/memories/a.md"],
        ["view", "/memories/none"],
        ["view"],
        ["replace", "/memories/a.md", "one", "two"],
    ):
        here(place, "--actor", "user:ann", *arguments)
    return place


def test_the_log_is_told(at: str) -> None:
    """As lines, as JSON, and as it is kept."""
    told = here(at, "audit", "show")
    rows = [line.split("\t") for line in told.stdout.splitlines()]
    assert [row[1:4] for row in rows] == [
        ["user:ann", "audit on", "ok"],
        ["user:ann", "view", "ok"],
        ["user:ann", "view", "not_found"],
        ["user:ann", "view", "ok"],
        ["user:ann", "str_replace", "ok"],
    ]
    assert rows[3][4] == "listing"
    assert rows[4][4].startswith("memver_")
    listed = json.loads(here(at, "audit", "show", "--json", "--since", "1h").stdout)
    assert [each["outcome"] for each in listed] == [row[3] for row in rows]
    assert listed[4]["changes"][0]["version_id"] == rows[4][4]
    lines = [json.loads(line) for line in here(at, "audit", "export").stdout.splitlines()]
    assert [each["command"] for each in lines] == [None, "view", "view", "view", "str_replace"]
    assert here(at, "audit", "export", "--since", "0s").stdout == ""


def test_a_sound_log_and_one_that_is_not(at: str, tmp_path: Path) -> None:
    """Status 0, and 13 for what was changed; an end that was noted is expected."""
    told = here(at, "audit", "verify")
    assert told.exit_code == 0
    first, end = told.stdout.splitlines()
    assert first == "Sound: 5 entries in 5 chains."
    noted = end.removeprefix("end\t")
    assert here(at, "audit", "verify", "--expect", noted).exit_code == 0
    assert here(at, "audit", "verify", "--expect", "nothing").exit_code == 2
    log = Log(tmp_path)
    sound = log.records()
    chain = noted.split(":")[0]
    log.put({key: value for key, value in sound.items() if chain not in key})
    assert here(at, "audit", "verify").exit_code == 0
    cut = here(at, "audit", "verify", "--expect", noted)
    assert (cut.exit_code, cut.stdout.splitlines()[0]) == (13, f"Not sound: entry 1 of chain {chain} is missing.")
    log.put(sound | {key_of(chain, 1): "{}"})
    found = here(at, "audit", "verify", "--json")
    assert found.exit_code == 13
    assert json.loads(found.stdout)["problem"] == {"what": "altered", "chain": chain, "seq": 1}


def test_a_log_that_was_never_on(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/memory.db"
    here(place, "create", "/memories/a.md", "one")
    assert here(place, "audit", "show").stdout == ""
    verified = here(place, "audit", "verify", "--json")
    empty: dict[str, object] = {"entries": 0, "chains": 0, "problem": None, "ends": [], "unaudited": []}
    assert (verified.exit_code, json.loads(verified.stdout)) == (0, empty)
    assert here(place, "--store", "other", "audit", "verify").exit_code == 3
