"""Blocks of the documentation are valid, and commands of `retentive` in it exist, also those that are not run."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from retentive.cli.app import app
from retentive.testing.scripted_claude import scripted_claude
from support.pages import MEASURED, ROOT, WRITTEN, blocks, prose
from support.printed import assert_examples_run
from support.scripts import SCRIPTS

DEPLOY = sorted((ROOT / "examples" / "deploy").iterdir())
# One command: `retentive` as the program, and words up to a shell operator, a comment or the end of the code.
_COMMAND = re.compile(
    r"(?:^|\$ |[|&(`'\"] *|exec (?:[\w-]+ )?|/bin/)retentive((?: +(?!\||&|>|<|#|;|\d>)[^ \n`;)]+)+)", re.MULTILINE
)


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words after `retentive` of each command in a text."""
    for found in _COMMAND.finditer(text.replace("\\\n", " ").replace("$(", "\n")):
        yield [word.strip("\"'") for word in found[1].split()]


def problem(words: list[str]) -> str | None:
    """Return the word that is neither a subcommand nor a known option."""
    command: click.Command = app
    context = click.Context(app, info_name="retentive")
    options = {option for parameter in command.params for option in parameter.opts}
    takes_value = False
    for word in words:
        if takes_value:
            takes_value = False
        elif re.match(r"--?[a-z]", word):
            name = word.partition("=")[0]
            known = [each for each in command.get_params(context) if name in each.opts]
            if not known and name not in options:
                return word
            takes_value = any(isinstance(each, click.Option) and not each.is_flag for each in known) and "=" not in word
        elif isinstance(command, click.Group):
            found = command.get_command(context, word)
            if found is None:
                return None if "|" in word else word  # `settings show|set` names two
            command = found
            context = click.Context(command, parent=context, info_name=word)
    return None


def code(page: Path) -> str:
    """Return the code of a page: blocks of a shell, and text in backticks."""
    shell = [block.body for block in blocks(page) if block.language in {"sh", "console"}]
    lines = [line for body in shell for line in body.splitlines() if line.startswith("$ ") or "$ " not in body]
    return "\n".join([*lines, *re.findall(r"`(retentive [^`]+)`", prose(page))])


def test_commands_of_the_pages_exist() -> None:
    found = [(page.name, words) for page in WRITTEN for words in commands(code(page))]
    assert len(found) > len(WRITTEN)
    assert [(page, words, wrong) for page, words in found if (wrong := problem(words))] == []


def test_commands_of_the_files_to_deploy_exist() -> None:
    starts = "\n".join(
        start for file in DEPLOY for start in re.findall(r"^ExecStart\w*=(.*)$", file.read_text("utf-8"), re.MULTILINE)
    )
    assert starts
    assert [(words, wrong) for words in commands(starts) if (wrong := problem(words))] == []


COMMENTED = re.compile(r"\s+# .*")


@pytest.mark.parametrize("page", [page for page in WRITTEN if page != MEASURED], ids=lambda page: page.stem)
def test_blocks_of_a_shell_are_valid(page: Path) -> None:
    """The syntax is that of bash, and the targets of make exist."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for block in blocks(page):
        if block.language in {"sh", "bash"}:
            done = subprocess.run(["bash", "-n"], input=block.body, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{page.name}, line {block.line}: {done.stderr}"
            for line in block.body.splitlines():
                if line.startswith("make "):
                    named = [word for word in COMMENTED.sub("", line).split()[1:] if "=" not in word]
                    assert set(named) <= targets, f"{page.name}, line {block.line}: {line}"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_blocks_of_data_can_be_parsed(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json":
            json.loads(block.body)
        elif block.language == "toml":
            tomllib.loads(block.body)


def test_no_fence_is_missed() -> None:
    """A fence with attributes, or indented, would not be a block for these tests."""
    for page in WRITTEN:
        fences = re.findall(r"^\s*(?:```|~~~)", page.read_text("utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(blocks(page)), page.name


RUNNABLE = [page for page in WRITTEN if any(block.language in {"python", "console"} for block in blocks(page))]


@pytest.mark.long  # each program starts an interpreter
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    with scripted_claude(*SCRIPTS) as claude:
        assert_examples_run(page, tmp_path, claude.url)
        assert claude.failures == []


def test_excerpts_match_their_files() -> None:
    """Each excerpt is a word-for-word copy of part of an example or a test."""
    files = [*(ROOT / "examples").glob("*.py"), *(ROOT / "tests" / "docs").glob("*.py")]
    code = "".join(file.read_text("utf-8") for file in files)
    excerpts = [(page.name, block) for page in WRITTEN for block in blocks(page) if block.language == "py"]
    assert excerpts
    assert [(page, block.line) for page, block in excerpts if block.body not in code] == []
