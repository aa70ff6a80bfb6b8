"""Likely sensitive values are flagged: the text is kept, the reply names the line, and the version gets a mark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retentive import MemoryStore
from retentive.redaction.examiner import allowance
from support.command_line import here
from support.places import opened

A = "/memories/a.md"
LIKELY = "notes\nthe password is hunter2\n"
NOTE = "Note: line {} may hold a sensitive value (password). Remove it unless it belongs here."
KEY = "AKIAQYLPMN5HXRZW2TVB"


def create(text: str, path: str = A) -> dict[str, Any]:
    return {"command": "create", "path": path, "file_text": text}


def insert(text: str, line: int = 0) -> dict[str, Any]:
    return {"command": "insert", "path": A, "insert_line": line, "insert_text": text}


def replace(old: str, new: str) -> dict[str, Any]:
    return {"command": "str_replace", "path": A, "old_str": old, "new_str": new}


def test_a_likely_value_is_kept_and_flagged(store: MemoryStore) -> None:
    """The reply names at most 5 lines. The mark of the version lists all lines and contains no value."""
    assert store.execute(create(LIKELY)).text == f"File created successfully at: {A}\n{NOTE.format(2)}"
    assert store.read(A) == LIKELY
    many = "".join(f"password {number} is Kiwi_8{number}yz\n" for number in range(7))
    assert store.execute(create(many, "/memories/b")).text.split("\n")[1:] == [
        NOTE.format(line) for line in range(1, 6)
    ]
    versions = list(store.versions())
    assert [len(version.provenance.flags) for version in versions] == [7, 1]
    assert not any("hunter2" in (version.provenance_text or "") for version in versions)


def test_an_edit_is_flagged_for_what_it_brings(store: MemoryStore) -> None:
    store.execute(create(LIKELY))
    assert store.execute(insert("more\n")).text == f"The file {A} has been edited."
    assert store.execute(insert("new password: Kiwi_88yz\n", 3)).text.endswith(NOTE.format(4))


def test_an_edit_that_touches_no_old_value_is_allowed_in_reject_mode(store: MemoryStore) -> None:
    store.change_settings({"sensitive": "off"})
    store.execute(create(f"one {KEY}\ntwo\n"))
    store.change_settings({"sensitive": "reject"})
    assert store.execute(replace("two", "2")).is_error is False
    assert store.read(A) == f"one {KEY}\n2\n"
    reply = store.execute(replace("one ", f"1 {KEY} and "))
    assert (reply.is_error, KEY in reply.text) == (True, False)
    store.change_settings({"sensitive": "off"})
    store.execute(create("Card 5500005555555559\nNumber 5500005555555559\n", "/memories/b"))
    store.change_settings({"sensitive": "reject"})
    completed = replace("Number", "Credit card number") | {"path": "/memories/b"}  # the other one is there already
    assert store.execute(completed).is_error


def test_an_edit_redacts_the_whole_new_text(store: MemoryStore) -> None:
    """Also values from before the setting, far from the changed line; likely ones that are only flagged stay."""
    store.change_settings({"sensitive": "off", "sensitive_likely": "off"})
    store.execute(create(f"one {KEY}\n{LIKELY}" + "words\n" * 2_000 + "two\n"))
    store.change_settings({"sensitive": None, "sensitive_likely": None})
    reply = store.execute(replace("two", "three"))
    assert "Note: 1 sensitive value(s) were removed before saving: aws_access_key_id." in reply.text
    assert "may hold" not in reply.text
    assert store.read(A) == f"one [REDACTED:aws_access_key_id]\n{LIKELY}" + "words\n" * 2_000 + "three\n"
    store.execute(replace("three", "four"))
    store.change_settings({"sensitive_likely": "redact"})
    store.execute(replace("four", "five"))
    assert "hunter2" not in store.read(A)


HEAD = "-----BEGIN RSA " + "PRIVATE KEY-----\n"
REST = "Proc-Type: 4,ENCRYPTED\n\n" + "MIIEpAIBAAKCAQEA7bq0xM4q2Yk1nJZ\n" * 30 + "-----END RSA " + "PRIVATE KEY-----\n"
ROWS = "name,number\n" + "Ann,none\n" * 100 + "Bob,5500005555555559\n"
COMPLETED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a word": ("Number 5500005555555559\n", replace("Number", "Credit card number"), "payment_card"),
    "the start of a key": (REST, insert(HEAD), "private_key"),
    "the heading of a table": (ROWS, replace("name,number", "name,card number"), "payment_card"),
}


@pytest.mark.parametrize("name", COMPLETED)
@pytest.mark.parametrize("mode", ["redact", "reject"])
def test_a_secret_that_an_edit_completes_is_not_saved(name: str, mode: str, store: MemoryStore) -> None:
    """The edit is judged as the whole new text is."""
    text, edit, kind = COMPLETED[name]
    store.change_settings({"sensitive": mode})
    store.execute(create(text))
    assert store.read(A) == text
    reply = store.execute(edit)
    assert (kind in reply.text, reply.is_error) == (True, mode == "reject")
    assert (store.read(A) == text) is (mode == "reject")
    assert (f"[REDACTED:{kind}]" in store.read(A)) is (mode == "redact")


def test_modes_and_allowances(store: MemoryStore) -> None:
    """Allowances are kinds, path patterns and hashes of single values. Each hash of a value has a random key."""
    for settings, saved in (
        ({"sensitive_likely": "redact"}, "notes\nthe password is [REDACTED:password]\n"),
        ({"sensitive_likely": "off"}, LIKELY),
        ({"sensitive_likely": "redact", "sensitive_allow": ["password"]}, LIKELY),
        ({"sensitive_likely": "redact", "sensitive_allow": ["/memories/a*"]}, LIKELY),
        (
            {"sensitive_likely": "redact", "sensitive_allow": ["/memories/b*"]},
            "notes\nthe password is [REDACTED:password]\n",
        ),
        ({"sensitive_likely": "redact", "sensitive_allow": [allowance("hunter2")]}, LIKELY),
        (
            {"sensitive_likely": "redact", "sensitive_allow": [allowance("hunter3")]},
            "notes\nthe password is [REDACTED:password]\n",
        ),
    ):
        store.change_settings({"sensitive_likely": None, "sensitive_allow": None, **settings})
        assert store.execute(create(LIKELY)).is_error is False
        assert store.read(A) == saved
        store.execute({"command": "delete", "path": A})
    assert allowance("hunter2") != allowance("hunter2")


def test_scan_lists_and_redacts_likely_values_on_request(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as place:
        place.store().execute(create(LIKELY))
        assert [(one.kinds, one.likely) for one in place.store().scan(redact=True)] == [((), ("password",))]
        assert place.store().read(A) == LIKELY
        assert [one.kinds for one in place.store().scan(redact=True, likely=True)] == [("password",)]
        assert place.store().scan() == []
    assert here(tmp_path / "m", "admin", "scan", "--allow", text=b"hunter2\n").stdout.startswith("value:")
