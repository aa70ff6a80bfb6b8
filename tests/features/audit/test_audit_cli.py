"""`retentive admin audit` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retentive.audit.chain import key_of
from support.command_line import here

from .logs import Log


@pytest.fixture
def at(tmp_path: Path) -> str:
    """A location with an audited store and some entries."""
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


def test_the_log_is_shown(at: str) -> None:
    """The log is shown as lines, as JSON, and in its stored form."""
    shown = here(at, "admin", "audit", "show")
    rows = [line.split("\t") for line in shown.stdout.splitlines()]
    assert [row[1:5] for row in rows] == [
        ["user:ann", "settings audit=on", "ok", ""],
        ["user:ann", "view", "ok", "/memories/a.md"],
        ["user:ann", "view", "not_found", "/memories/none"],
        ["user:ann", "view", "ok", "/memories"],
        ["user:ann", "str_replace", "ok", "/memories/a.md"],
    ]
    assert rows[3][5] == "listing"
    assert rows[4][5].startswith("memver_")
    listed = json.loads(here(at, "admin", "audit", "show", "--json", "--since", "1h").stdout)
    assert [each["outcome"] for each in listed] == [row[3] for row in rows]
    assert {each["integration"] for each in listed} == {"cli"}
    assert listed[4]["changes"][0]["version_id"] == rows[4][5]
    lines = [json.loads(line) for line in here(at, "admin", "audit", "export").stdout.splitlines()]
    assert [each["operation"] for each in lines] == ["settings", "view", "view", "view", "str_replace"]
    assert here(at, "admin", "audit", "export", "--since", "0s").stdout == ""


def test_verify_distinguishes_valid_from_modified_logs(at: str, tmp_path: Path) -> None:
    """The exit status is 0, or 13 for a modified log. With `--expect`, the log must contain the recorded head."""
    verified = here(at, "admin", "audit", "verify")
    assert verified.exit_code == 0
    first, end = verified.stdout.splitlines()
    assert first == "Sound: 5 entries."
    noted = end.removeprefix("head\t")
    assert here(at, "admin", "audit", "verify", "--expect", noted).exit_code == 0
    assert here(at, "admin", "audit", "verify", "--expect", "nothing").exit_code == 2
    log = Log(tmp_path)
    sound = log.records()
    log.put({key: value for key, value in sound.items() if key != key_of(5)})
    cut = here(at, "admin", "audit", "verify", "--expect", noted)
    assert (cut.exit_code, cut.stdout.splitlines()[0]) == (13, "Not sound: entry 5: missing.")
    log.put(sound | {key_of(2): "{}"})
    found = here(at, "admin", "audit", "verify", "--json")
    assert found.exit_code == 13
    assert json.loads(found.stdout)["problem"] == {"what": "altered", "seq": 2}
