"""Random conversations: each request is accepted, each call runs once, and streaming changes nothing.

A failure prints the scenario with its seed. `make_scenario(seed)` makes it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pprint import pformat

import pytest

from retentive.agent import turns
from retentive.testing.scripted_claude import ErrorResponse
from support.profiles import sized

from .player import Fuzz, fuzzing
from .scenario import REFUSALS, Part, Reply, Scenario, Step, make_scenario

CHUNK = sized(quick=25, long=100, full=100)
CHUNKS = sized(quick=1, long=10, full=100)
HELLO = (Step("Hello."),)


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Fuzz]:
    monkeypatch.setattr(turns, "retry_pauses", lambda retries: iter([0.0] * retries))
    caplog.set_level("CRITICAL")
    with fuzzing() as found:
        yield found


def check(fuzz: Fuzz, scenario: Scenario) -> None:
    try:
        fuzz.check(scenario)
    except Exception as error:
        raise AssertionError(f"seed {scenario.seed}: {error!r}\n{pformat(scenario)}") from error


def check_all(fuzz: Fuzz, chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        check(fuzz, make_scenario(seed))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_conversations(chunk: int, fuzz: Fuzz) -> None:
    check_all(fuzz, chunk)


@pytest.mark.parametrize(
    ("replies", "steps"),
    [
        ((Reply((Part("redacted thinking", 1),), "max_tokens"),), (*HELLO, Step())),
        (
            (Reply((Part("text", 1),), "pause_turn"), Reply((Part("text", 2),), "end_turn", (ErrorResponse(500),))),
            (*HELLO, Step(agent="saved")),
        ),
    ],
    ids=["thinking at the end", "paused at a text"],
)
def test_conversations_that_failed(replies: tuple[Reply, ...], steps: tuple[Step, ...], fuzz: Fuzz) -> None:
    check(fuzz, Scenario(0, replies, steps))


@pytest.mark.parametrize("status", REFUSALS)
@pytest.mark.parametrize("way", ["plain", "streamed"])
def test_a_refused_request_is_not_sent_again(way: str, status: int, fuzz: Fuzz) -> None:
    """The application runs again, and the conversation is accepted."""
    scenario = Scenario(0, (Reply((Part("text", 1),), "end_turn", (ErrorResponse(status),)),), HELLO, retries=2)
    outcome = fuzz.play(scenario, way)
    assert (fuzz.requests, [end.reason for end in outcome.finished]) == (2, ["end_turn"])
