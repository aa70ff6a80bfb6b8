"""Scripted Claudes of the agent's tests are strict: they refuse unknown models, betas and fields, as the API does."""

from __future__ import annotations

import pytest

from retentive.testing.scripted_claude import ScriptedClaude


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = ScriptedClaude.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "strict", True)
