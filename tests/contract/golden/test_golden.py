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
@pytest.mark.parametrize("backend", ELSEWHERE if LONG else ["sealed sqlite", "sealed directory", "sealed postgresql"])
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
