"""An answer that cannot be read is told in a line, and ends nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.fixed_api import streamed_call
from agent.stream_server import serve_answer

from .running import here

CALLS = ['{"command": "create", "path": "/memories/a", "file_text": "x\\ud83d"}', '{"command": view}']


@pytest.fixture(params=CALLS, ids=["half a character", "no JSON"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with serve_answer(streamed_call(request.param).encode()) as at:
        yield at


def test_a_call_that_cannot_be_read_is_told_and_ends_nothing(url: str, tmp_path: Path) -> None:
    done = here(f"sqlite:///{tmp_path}/memory.db", "chat", "--base-url", url, text=b"Note it.\nAgain.\n/retry\n")
    shown = "Error: The API failed. /retry asks again.\n"
    assert done.stdout.count(shown) + done.stderr.count(shown) == 3
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 1
