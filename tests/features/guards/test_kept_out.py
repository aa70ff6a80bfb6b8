"""Sensitive values never get into texts, versions, replies or stored bytes, on any backend and with any command."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from anthropic.lib.tools import ToolError

import retentive
from retentive import InvalidInput, MemoryStore, MemoryTool
from retentive.errors import SensitiveValue
from retentive.redaction.detector import Find, Rule
from support.command_line import here
from support.commands import create
from support.places import opened

A = "/memories/a.md"
KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # concatenated, so that no secret scanner reports this file
CARD = "4111 1111 1111 1111"
TEXT = f"the key is {KEY}, and\nthe card {CARD} is mine\n"
CLEAN = "the key is [REDACTED:aws_access_key_id], and\nthe card [REDACTED:payment_card] is mine\n"
NOTE = "Note: 2 sensitive value(s) were removed before saving: aws_access_key_id, payment_card."


def everything(store: MemoryStore) -> str:
    """Return all readable contents of the store."""
    texts = [store.version_text(version.id) + version.path for version in store.versions()]
    return "\n".join([*texts, *(store.read(memory.path) for memory in store.memories())])


def test_values_are_removed_before_saving(store: MemoryStore) -> None:
    """By default, values are removed. The reply lists the number and the kinds of the values, but no text."""
    assert store.execute(create(A, TEXT)).text == f"File created successfully at: {A}\n{NOTE}"
    assert store.read(A) == CLEAN
    more = {"command": "insert", "path": A, "insert_line": 0, "insert_text": f"again {KEY}"}
    assert store.execute(more).text == (
        f"The file {A} has been edited.\nNote: 1 sensitive value(s) were removed before saving: aws_access_key_id."
    )
    change = {"command": "str_replace", "path": A, "old_str": "mine", "new_str": f"mine {KEY}"}
    assert store.execute(change).text.split("\n")[0] == "The memory file has been edited."
    assert len(store.execute(change | {"old_str": "again", "new_str": "once"}).text.split("\n")) > 2
    assert KEY not in everything(store)
    assert "4111" not in everything(store)


def test_reject_mode_writes_nothing(store: MemoryStore) -> None:
    """The reply names the kinds of the values, and never a value."""
    store.change_settings({"sensitive": "reject"})
    reply = store.execute(create(A, TEXT))
    assert reply.code == "sensitive"
    assert reply.text == (
        f"Error: {A} would hold sensitive values: aws_access_key_id, payment_card. Nothing was written. "
        "Remove them, or write where they are kept instead."
    )
    assert not [*store.memories(), *store.versions()]
    store.change_settings({"sensitive": "off"})
    store.execute(create(A, TEXT))
    assert store.read(A) == TEXT


def test_kinds_are_added_and_taken_away(store: MemoryStore) -> None:
    """The kinds that are not named stay on. An unknown kind is refused, with a suggestion."""
    for kinds, words in (
        (["emial"], "Did you mean 'email'?"),
        (["-payment_crad"], "Did you mean 'payment_card'?"),
        (["email", "-email"], "both added and"),
        (["all"], "aws_access_key_id"),
    ):
        with pytest.raises(InvalidInput, match=r"^sensitive_kinds: ") as caught:
            store.change_settings({"sensitive_kinds": kinds})
        assert words in str(caught.value)
        with pytest.raises(InvalidInput, match=r"^sensitive_kinds: "):
            retentive.open("sqlite://", sensitive_kinds=kinds).store()
    address = "mail ada@example.com\n"
    kept, found = CLEAN.replace("[REDACTED:aws_access_key_id]", KEY), "mail [REDACTED:email]\n"
    cases: list[tuple[list[str] | None, str]] = [
        (["email"], CLEAN + found),
        (["-aws_access_key_id"], kept + address),
        (["email", "-aws_access_key_id"], kept + found),
        (["payment_card"], CLEAN + address),
        ([], CLEAN + address),
        (None, CLEAN + address),
    ]
    for number, (changes, wanted) in enumerate(cases):
        store.change_settings({"sensitive_kinds": changes})
        store.execute(create(f"/memories/{number}", TEXT + address))
        assert store.read(f"/memories/{number}") == wanted


def test_a_path_with_a_value_is_refused_and_redacted(store: MemoryStore) -> None:
    """The path of a create or a rename may not contain a sensitive value. The reply shows it redacted."""
    store.execute(create(A, "x"))
    shown = "/memories/[REDACTED:aws_access_key_id].md"
    wanted = f"Error: Invalid path {shown}: holds a sensitive value: aws_access_key_id"
    assert store.execute(create(f"/memories/{KEY}.md", "x")).text == wanted
    moved = {"command": "rename", "old_path": A, "new_path": f"/memories/{KEY}.md"}
    assert store.execute(moved).text == wanted
    with pytest.raises(InvalidInput) as refused:
        store.write(f"/memories/{KEY}.md", "x")
    assert f"Error: {refused.value}" == wanted


def test_a_failing_detector_refuses_the_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log contains the name of the error and no text."""

    def broken(text: str) -> Iterable[Find]:
        raise ValueError(text)

    with opened("sqlite", tmp_path, detectors=[broken]) as place, caplog.at_level(logging.ERROR):
        with pytest.raises(ToolError, match="could not be checked"):
            MemoryTool(place.store()).call(create(A, TEXT))
        assert list(place.store().versions()) == []
    assert "ValueError" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("backend", ["sqlite", "directory"])
@pytest.mark.parametrize("mode", ["redact", "reject"])
def test_no_byte_of_a_removed_value_is_stored(backend: str, mode: str, tmp_path: Path) -> None:
    """The bytes of the database, its log, its free pages and the files are searched after all kinds of commands."""
    with opened(backend, tmp_path) as place:
        store = place.store()
        store.change_settings({"sensitive": mode})
        store.execute(create(A, "start\n"))
        for command in (
            create("/memories/b.md", TEXT),
            {"command": "insert", "path": A, "insert_line": 0, "insert_text": TEXT},
            {"command": "str_replace", "path": A, "old_str": "start", "new_str": TEXT},
            create(f"/memories/{KEY}", "x"),
            {"command": "rename", "old_path": A, "new_path": f"/memories/{KEY}"},
        ):
            store.execute(command)
        with suppress(SensitiveValue):  # of `reject`
            store.write(A, TEXT)
        at_rest = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for value in (KEY, CARD):
        for form in (value.encode(), base64.b64encode(value.encode())[:12], value.encode("utf-16-le")):
            assert form not in at_rest


def test_stored_values_are_reported_and_redacted(tmp_path: Path) -> None:
    """The values come from external edits, or from the time before the guards were enabled."""
    with retentive.open(tmp_path / "memory") as place:
        place.store().execute(create("/memories/b.md", "clean"))
    (tmp_path / "memory" / "memories" / "a.md").write_text(TEXT)
    told = here(tmp_path / "memory", "admin", "scan")
    assert (told.stdout, told.exit_code) == (f"{A}\taws_access_key_id, payment_card\n", 16)
    cleaned = here(tmp_path / "memory", "admin", "scan", "--redact")
    assert cleaned.exit_code == 0
    assert here(tmp_path / "memory", "admin", "scan").stdout == ""
    assert (tmp_path / "memory" / "memories" / "a.md").read_text() == CLEAN


def test_a_value_is_redacted_despite_the_limits(store: MemoryStore) -> None:
    """A redaction is allowed to exceed the limits, because the marker can be longer than the value."""
    text = "x" * 500 + "\npassword: hunter2$Ecret\n"
    store.change_settings({"sensitive": "off"})
    store.execute(create(A, text))
    store.change_settings({"sensitive": "redact", "max_memory_bytes": 100, "max_store_bytes": 100, "max_memories": 1})
    assert [(one.path, one.kinds) for one in store.scan(redact=True)] == [(A, ("password",))]
    assert store.read(A) == text.replace("hunter2$Ecret", "[REDACTED:password]")


def test_a_path_with_a_value_is_reported_redacted(store: MemoryStore) -> None:
    """A person must rename the path of a present memory. Old paths in the history are redacted."""
    named, moved, gone = (f"/memories/{name}/{KEY}.md" for name in ("named", "moved", "gone"))
    shown = "/memories/{}/[REDACTED:aws_access_key_id].md"
    store.change_settings({"sensitive": "off"})
    for path in (named, moved, gone):
        store.execute(create(path, "text"))
    store.execute({"command": "rename", "old_path": moved, "new_path": "/memories/m"})
    store.execute({"command": "delete", "path": gone})
    kinds = ("aws_access_key_id",)
    assert [(one.path, one.kinds, one.in_path) for one in store.scan()] == [(shown.format("named"), kinds, True)]
    found = {one.path: one.in_path for one in store.scan(history=True)}
    assert found == {shown.format("named"): True, shown.format("moved"): False, shown.format("gone"): False}
    store.scan(redact=True, history=True)
    assert [one.path for one in store.scan(history=True)] == [shown.format("named")]
    store.execute({"command": "rename", "old_path": named, "new_path": "/memories/n"})
    store.scan(redact=True, history=True)
    assert (store.scan(history=True), KEY in everything(store)) == ([], False)


def test_the_command_line_shows_no_path_with_a_value(tmp_path: Path) -> None:
    """The output says what to do. The exit status is 16 until the memory is renamed."""
    with retentive.open(tmp_path / "m", sensitive="off") as place:
        place.store().execute(create(f"/memories/{KEY}.md", f"and {KEY}"))
    shown = "/memories/[REDACTED:aws_access_key_id].md\taws_access_key_id; in the path: rename the memory\n"
    for options in ([], ["--redact"], ["--history", "--redact", "--yes"], ["--history"]):
        told = here(tmp_path / "m", "admin", "scan", *options)
        assert (told.stdout, told.exit_code) == (shown, 16)
    told = here(tmp_path / "m", "admin", "scan", "--json")
    assert (KEY in told.output, '"in_path": true' in told.output) == (False, True)


def test_a_renamed_directory_is_examined_with_its_memories(tmp_path: Path) -> None:
    """A new directory name can complete a sensitive value in the paths of its memories."""
    with retentive.open(tmp_path / "m", rules=[Rule("ticket", "TICKET/[0-9]{4}")]) as place:
        store = place.store()
        store.execute(create("/memories/a/1234", "text"))
        reply = store.execute({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/TICKET"})
        assert reply.text == "Error: Invalid path /memories/[REDACTED:ticket]: holds a sensitive value: ticket"
        assert store.read("/memories/a/1234") == "text"


def test_a_detector_error_does_not_contain_the_text(tmp_path: Path) -> None:
    """The cause and the context of the error do not contain it either, since applications log exceptions."""

    def fails(text: str) -> Iterable[Find]:
        if "broken" in text:
            raise ValueError(text)
        return ()

    with retentive.open(tmp_path / "m", sensitive="off") as place:
        place.store().execute(create(A, f"broken {KEY}"))
        place.store().execute({"command": "delete", "path": A})
        deleted = place.store().history.log(limit=1)[0].id
        place.store().execute(create("/memories/b", f"broken {KEY}"))
    with retentive.open(tmp_path / "m", detectors=[fails]) as place:
        for work in (partial(place.store().history.undo, deleted), place.store().scan):
            with pytest.raises(InvalidInput, match="could not be checked") as raised:
                work()
            chain: list[BaseException] = [raised.value]
            for error in chain:
                chain += [other for other in (error.__context__, error.__cause__) if other is not None]
            assert "broken" not in "".join(map(repr, chain))


NAMED_BY_KEY = f"/memories/{KEY}"
NOT_COMMANDS: list[object] = [
    {"command": KEY},
    KEY,
    {"command": "create", "path": A, "file_text": [KEY]},
    {"command": "create", "path": A, "file_text": int(CARD.replace(" ", ""))},
    {"command": "view", "path": A, "view_range": KEY},
    {"command": "view", "path": A, "view_range": [KEY, 1]},
    {"command": "insert", "path": A, "insert_line": KEY, "insert_text": ""},
    {"command": "view", "path": KEY},
    {"command": "view", "path": f"{NAMED_BY_KEY}/../x"},
    {"command": "view", "path": f"{NAMED_BY_KEY}/" + "x" * 300},
    {"command": "rename", "old_path": A, "new_path": f"{NAMED_BY_KEY}\\x"},
]
COMMANDS: list[object] = [
    {"command": "view", "path": NAMED_BY_KEY},
    {"command": "view", "path": NAMED_BY_KEY, "view_range": [5, 9]},
    {"command": "create", "path": NAMED_BY_KEY, "file_text": ""},
    {"command": "create", "path": f"{NAMED_BY_KEY}/x", "file_text": ""},
    {"command": "str_replace", "path": NAMED_BY_KEY, "old_str": "x", "new_str": "y"},
    {"command": "insert", "path": NAMED_BY_KEY, "insert_line": 0, "insert_text": "x"},
    {"command": "insert", "path": NAMED_BY_KEY, "insert_line": 9, "insert_text": "x"},
    {"command": "rename", "old_path": NAMED_BY_KEY, "new_path": NAMED_BY_KEY},
    {"command": "rename", "old_path": NAMED_BY_KEY, "new_path": "/memories/a.md/b"},
    {"command": "delete", "path": NAMED_BY_KEY},
]


@pytest.mark.parametrize("there", [True, False])
def test_no_reply_echoes_a_value(store: MemoryStore, there: bool) -> None:
    """No error echoes a value, whether or not the memory exists. With `off`, the replies are not changed.

    A reply without an error names an accepted path as it was written, as listings do.
    """
    store.change_settings({"sensitive": "off"})
    store.execute(create(A, "x"))
    for command in [*NOT_COMMANDS, *COMMANDS]:
        for mode in ("redact", "reject", "off"):
            store.change_settings({"sensitive": "off"})
            if there:
                store.execute({"command": "create", "path": NAMED_BY_KEY, "file_text": "x\n"})
            store.change_settings({"sensitive": mode})
            reply = store.execute(command)
            said = reply.text
            if mode == "off":
                assert command not in NOT_COMMANDS or KEY in said or CARD.replace(" ", "") in said
            elif reply.is_error:
                assert (KEY in said, CARD.replace(" ", "") in said) == (False, False)
                assert command not in NOT_COMMANDS or "[REDACTED:" in said


def test_a_truncated_echo_shows_no_part_of_a_value() -> None:
    """The value can be at any position, and other redactions can precede it."""
    with retentive.open("sqlite://") as place:
        for before in (0, 1, 1_950, 1_990, 2_000, 2_900, 2_990, 5_000):
            for first in ("", "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 300 + "\n-----END PRIVATE KEY-----\n"):
                said = place.store().execute({"command": first + " x" * (before // 2) + f" {KEY} {'x ' * 2_000}"}).text
                assert KEY[:6] not in said
                assert "QUJD" not in said
                assert "…" in said


def test_a_text_that_cannot_be_examined_is_not_echoed(tmp_path: Path) -> None:
    def broken(text: str) -> Iterable[Find]:
        raise ValueError(text)

    with opened("sqlite", tmp_path, detectors=[broken]) as place:
        reply = place.store().execute({"command": "delete", "path": A})
    assert (reply.text, reply.code) == ("Error: The path … does not exist", "not_found")
