"""The gateway through the SDK: memory calls are answered on the way, and the model sees its own view again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retentive.testing.scripted_claude import Call, Check, Script, Turn

from .gateways import NOTES, gateway, said

CREATE = Call({"command": "create", "path": NOTES, "file_text": "tea\n"}, Check(contains=("created",)))
VIEW = Call({"command": "view", "path": NOTES}, Check(contains=("tea",)))


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["declared", "added"])
def test_memory_calls_are_answered_on_the_way(at: str, mode: str, *, stream: bool) -> None:
    script = Script((Turn(("Let me see. ", CREATE)), Turn((VIEW,)), "Done.", "Bye."))
    options: dict[str, Any] = {} if mode == "declared" else {"tools": []}
    with gateway(script, at, mode=mode) as place:
        hello = {"role": "user", "content": "hello"}
        first = place.ask([hello], stream=stream, **options)
        assert said(first) == "Let me see. Done."
        reply = {"role": "assistant", "content": first.content}
        second = place.ask([hello, reply, {"role": "user", "content": "bye"}], stream=stream, **options)
        assert said(second) == "Bye."
        place.claude.verify()  # so the model's own calls came back unchanged
        assert place.store.read(NOTES) == "tea\n"
