"""The commands of the pages run the tree under test."""

from __future__ import annotations

import os

import pytest

from support.pages import ROOT
from support.printed import environment


def test_the_modules_of_the_caller_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/tree/src")
    assert environment("http://localhost")["PYTHONPATH"].split(os.pathsep) == ["/tree/src", str(ROOT / "examples")]
    monkeypatch.delenv("PYTHONPATH")
    assert environment("http://localhost")["PYTHONPATH"] == str(ROOT / "examples")
