"""Every integration and every backend gives the replies of the transcripts, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.places import ALL_LOCAL, KEYS, SEALED, SERVERS, place_of
from support.profiles import LONG

from .integrations import INTEGRATIONS
from .transcript import TRANSCRIPTS, Transcript

ELSEWHERE = [*SERVERS, *SEALED] if LONG else ["sealed sqlite", "sealed directory", "sealed postgresql"]
CASES = [
    pytest.param(backend, transcript, door, id=f"{backend}-{transcript.name}-{door}")
    for backend in (*ALL_LOCAL, *ELSEWHERE)
    for transcript in TRANSCRIPTS
    for door in INTEGRATIONS
    if door != "cli exec" or not transcript.limits  # transcripts that need options which this integration does not have
    if LONG or backend == "sqlite" or door == "engine"
]


@pytest.mark.parametrize(("backend", "transcript", "door"), CASES)
def test_replies_match_the_transcript(backend: str, transcript: Transcript, door: str, tmp_path: Path) -> None:
    options = {"keys": KEYS} if backend in SEALED else {}
    replies = INTEGRATIONS[door]((place_of(backend, tmp_path), options), transcript)
    assert len(replies) == len(transcript.exchanges)
    for exchange, (text, is_error) in zip(transcript.exchanges, replies, strict=True):
        where = f"{transcript.name}.txt, line {exchange.line}: {exchange.raw}"
        assert text == exchange.text, where
        assert is_error == exchange.is_error, where
