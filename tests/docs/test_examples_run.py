"""Every example of the documentation runs unchanged and prints the expected output.

The blocks of one page run in order, in a new directory, or in several (`<!-- new directory -->`). A ```python block
is a program. If its first line is `# name.py`, it is saved as a file for later commands. A ```text block directly
after a program is the expected output. A ```console block has commands after `$ ` and their output, in which a line
`...` matches any lines. A ```py block is an excerpt of a file of the project. Blocks in other languages (```sh) are
not run. Calls to Claude go to the scripted Claude.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retentive.testing.scripted_claude import scripted_claude
from support.pages import ROOT, WRITTEN, blocks
from support.printed import assert_examples_run
from support.scripts import SCRIPTS

QUICK = {"README"}
"""Pages that run in all profiles. The others run in the long one, since each program starts an interpreter."""
RUNNABLE = [page for page in WRITTEN if any(block.language in {"python", "console"} for block in blocks(page))]


def in_time(page: Path) -> Any:
    return pytest.param(page, id=page.stem, marks=[] if page.stem in QUICK else [pytest.mark.long])


@pytest.mark.parametrize("page", [in_time(page) for page in RUNNABLE])
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    with scripted_claude(*SCRIPTS) as claude:
        assert_examples_run(page, tmp_path, claude.url)
        assert claude.failures == []


def test_excerpts_match_their_files() -> None:
    """Each excerpt is a word-for-word copy of part of an example, a test or the road."""
    road = (ROOT / "src" / "retentive" / "engine").glob("*.py")
    files = [*(ROOT / "examples").glob("*.py"), *(ROOT / "tests" / "docs").glob("*.py"), *road]
    code = "".join(file.read_text("utf-8") for file in files)
    excerpts = [(page.name, block) for page in WRITTEN for block in blocks(page) if block.language == "py"]
    assert excerpts
    assert [(page, block.line) for page, block in excerpts if block.body not in code] == []
