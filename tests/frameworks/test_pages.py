"""The examples of the pages about these frameworks run unchanged and print the expected output."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import APART
from support.printed import assert_examples_run


@pytest.mark.parametrize("page", sorted(APART), ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    assert_examples_run(page, tmp_path, "")
