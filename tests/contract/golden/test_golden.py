"""Every integration and every backend gives the replies of the transcripts, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.places import ALL_LOCAL, KEYS, SEALED, SERVERS, place_of
from support.profiles import LONG

from .integrations import INTEGRATIONS
from .transcript import TRANSCRIPTS, Transcript

CASES = [
    pytest.param(transcript, door, id=f"{transcript.name}-{door}")
    for transcript in TRANSCRIPTS
    for door in INTEGRATIONS
    if door != "cli exec" or not transcript.limits  # transcripts that need options which this integration does not have
]

BY_ENGINE = [case for case in CASES if case.values[1] == "engine"]
ELSEWHERE = [*SERVERS, *(name for name in SEALED if name.startswith("sealed"))]


@pytest.mark.parametrize(("transcript", "door"), CASES)
def test_replies_match_the_transcript(transcript: Transcript, door: str, tmp_path: Path) -> None:
    check("sqlite", transcript, door, tmp_path)


@pytest.mark.parametrize(("transcript", "door"), CASES if LONG else BY_ENGINE)
@pytest.mark.parametrize("backend", [name for name in ALL_LOCAL if name != "sqlite"])
def test_replies_match_on_every_backend(backend: str, transcript: Transcript, door: str, tmp_path: Path) -> None:
    check(backend, transcript, door, tmp_path)


@pytest.mark.parametrize(("transcript", "door"), CASES if LONG else BY_ENGINE)
@pytest.mark.parametrize("backend", ELSEWHERE if LONG else [name for name in ELSEWHERE if name in SEALED])
def test_replies_match_on_servers_and_under_encryption(
    backend: str, transcript: Transcript, door: str, tmp_path: Path
) -> None:
    check(backend, transcript, door, tmp_path)


def check(backend: str, transcript: Transcript, door: str, directory: Path) -> None:
    options = {"keys": KEYS} if backend in SEALED else {}
    replies = INTEGRATIONS[door]((place_of(backend, directory), options), transcript)
    assert len(replies) == len(transcript.exchanges)
    for exchange, (text, is_error) in zip(transcript.exchanges, replies, strict=True):
        where = f"{transcript.name}.txt, line {exchange.line}: {exchange.raw}"
        assert text == exchange.text, where
        assert is_error == exchange.is_error, where


SENTENCES = (
    "Here're the files and directories up to 2 levels deep in ",
    "[Truncated: 3 of 4 entries shown. View a directory below to see the rest.]",
    "Here's the content of ",
    "Error: Invalid `view_range` parameter: ",
    "View the rest with view_range [",
    "View it whole with view_range [",
    " does not exist. Please provide a valid path.",
    "File created successfully at: ",
    " already exists",
    " is a file, not a directory",
    "The memory file has been edited. Here is the snippet showing the change (with line numbers):",
    "The memory file has been edited.",
    " did not appear verbatim in ",
    "Note: The lines of ",
    "No replacement was performed. Multiple occurrences of old_str `",
    "No replacement was performed, old_str must not be empty.",
    " has been edited.",
    "Error: Invalid `insert_line` parameter: ",
    "Successfully deleted ",
    "Error: Cannot delete the /memories directory itself",
    "Successfully renamed ",
    "Error: Cannot rename the /memories directory itself",
    "Error: The destination ",
    " cannot be moved into itself",
    "Error: Invalid path ",
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_sentence_of_the_tool_is_in_a_transcript(sentence: str) -> None:
    """The test omits sentences that need a million lines or a failing storage."""
    replies = [exchange.text for transcript in TRANSCRIPTS for exchange in transcript.exchanges]
    assert any(sentence in reply for reply in replies)
