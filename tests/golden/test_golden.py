"""Every transcript is answered word for word at every door, on every backend, in every language."""

from __future__ import annotations

import pytest

from .doors import DOORS
from .transcript import TRANSCRIPTS, Transcript

CASES = [
    pytest.param(transcript, door, language, id=f"{transcript.name}-{door}-{language}")
    for transcript in TRANSCRIPTS
    for door in DOORS
    for language in ("en", "fr")
    if door != "cli exec" or (language == "en" and not transcript.limits)  # it has no options for these
]


@pytest.mark.parametrize(("transcript", "door", "language"), CASES)
def test_a_transcript_is_answered_word_for_word(place: str, transcript: Transcript, door: str, language: str) -> None:
    replies = DOORS[door](place, transcript, language)
    assert len(replies) == len(transcript.exchanges)
    for exchange, (text, is_error) in zip(transcript.exchanges, replies, strict=True):
        where = f"{transcript.name}.txt, line {exchange.line}: {exchange.raw}"
        assert text == exchange.text(language), where
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
    "No replacement was performed. Multiple occurrences of old_str `",
    "No replacement was performed, old_str must not be empty.",
    " has been edited.",
    "Error: Invalid `insert_line` parameter: ",
    "Successfully deleted ",
    "Error: The /memories directory itself cannot be deleted",
    "Successfully renamed ",
    "Error: The /memories directory itself cannot be renamed",
    "Error: The destination ",
    " cannot be moved into itself",
    "Error: Invalid path ",
)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_sentence_of_the_tool_stands_in_a_transcript(sentence: str) -> None:
    """All but those for which a million lines or broken storage is needed."""
    replies = [exchange.text() for transcript in TRANSCRIPTS for exchange in transcript.exchanges]
    assert any(sentence in reply for reply in replies)
