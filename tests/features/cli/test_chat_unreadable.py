"""An unreadable answer is reported in one line and does not end the chat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import here
from support.fixed_api import streamed_call
from support.stream_server import serve_answer

CALLS = ['{"command": "create", "path": "/memories/a", "file_text": "x\\ud83d"}', '{"command": view}']


@pytest.fixture(params=CALLS, ids=["half a character", "no JSON"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with serve_answer(streamed_call(request.param).encode()) as at:
        yield at


def test_an_unreadable_call_is_reported(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retentive.agent.loop.retry_pauses", lambda retries: iter([0.0] * retries))
    done = here(f"sqlite:///{tmp_path}/memory.db", "chat", "--base-url", url, text=b"Note it.\nAgain.\n/retry\n")
    shown = "Error: The API failed. /retry sends the message again.\n"
    assert done.stdout.count(shown) + done.stderr.count(shown) == 3
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 1
