"""Comparison of a command's output with the documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.pages import ROOT, Block, blocks

TIMEOUT_S = 120


def assert_prints(command: str, expected: str | None, directory: Path, url: str, where: str) -> None:
    """Check that the command prints this, including warnings and errors.

    Without expected output, it only has to succeed.
    """
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment(url),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if expected is None:
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout}"
        return
    pattern = re.escape(expected).replace(re.escape("...\n"), "(?:.*\n)*")
    assert re.fullmatch(pattern, done.stdout), f"{where}: {command}\nprinted:\n{done.stdout}\nnot:\n{expected}"


def assert_examples_run(page: Path, directory: Path, url: str) -> None:
    """Run the examples of a page in order, and compare their output with the page.

    They run in one directory. A new one begins at each `<!-- new directory -->`.
    """
    following = [*blocks(page)[1:], Block("", "", 0)]
    lines, top = page.read_text("utf-8").splitlines(), directory
    for block, after in zip(blocks(page), following, strict=True):
        directory = top / str(lines[: block.line].count("<!-- new directory -->"))
        directory.mkdir(exist_ok=True)
        where = f"{page.name}, line {block.line}"
        expected = after.body if after.language == "text" else None
        if block.file_name is not None:
            (directory / block.file_name).write_text(block.body, "utf-8")
        elif block.language == "python":
            (directory / "program.py").write_text(block.body, "utf-8")
            assert_prints(f"{sys.executable} program.py", expected, directory, url, where)
        elif block.language == "console":
            for command, printed in block.commands:
                assert_prints(command, printed, directory, url, where)


def environment(url: str) -> dict[str, str]:
    """Return the environment of the tests with the scripted Claude.

    The programs of this installation are first on the path.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "RETENTIVE_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    modules = [kept.get("PYTHONPATH", ""), str(ROOT / "examples")]  # the tree under test comes first
    ours = {"PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, modules))}
    return {**kept, **ours, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none-needed"}
