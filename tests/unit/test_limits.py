"""Limits: whole numbers from 0, refused at once if they are anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import commonplace
from commonplace import InvalidInput
from commonplace.limits import Limits


def test_the_defaults_are_those_of_the_documentation() -> None:
    assert Limits() == Limits(view_chars=16_000, list_rows=1_000, max_memory_bytes=102_400, create_overwrites=False)


@pytest.mark.parametrize("name", ["view_chars", "list_rows", "max_memory_bytes"])
@pytest.mark.parametrize("value", [-1, 1.5, "5", None, True, float("nan")])
def test_a_wrong_limit_is_refused_before_anything_is_made(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=name):
        commonplace.open(tmp_path / "memory", **{name: value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [0, 1, None, "yes"])
def test_create_overwrites_is_true_or_false(value: Any) -> None:
    with pytest.raises(InvalidInput, match="create_overwrites"):
        commonplace.open("sqlite://", create_overwrites=value)
