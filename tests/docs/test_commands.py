"""Commands of `retentive` in the documentation exist, with their options, also in blocks that are not run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from retentive.cli.app import app
from support.pages import ROOT, WRITTEN, blocks, prose

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


def test_unknown_commands_and_options_are_found() -> None:
    texts = ["retentive no-such ls", "a | retentive log --no-such x", "retentive --at memory settings no-such"]
    assert [problem(words) for text in texts for words in commands(text)] == ["no-such", "--no-such", "no-such"]
    assert [problem(words) for words in commands("retentive --at x log -n 1 | cut -f 1")] == [None]
