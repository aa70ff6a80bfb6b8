"""`retentive chat` on a terminal: rendering, diffs, input of several lines, completion, hints, and late imports."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from retentive.cli.chat.markdown import MarkdownBlocks, rendered
from retentive.testing.scripted_claude import Call, Exchange, Script, Turn, scripted_claude
from support.command_line import AT, RETENTIVE, environment, interactive, texts

TEA = "/memories/tea.md"
NOTE = Call({"command": "create", "path": TEA, "file_text": "likes tea\n"})
ANSWER = """# Tea

Use **green** <name> [tea](http://tea.example).

- one

- two
  more

```python
x = 1

y = 2
```

| a | b |
|---|---|
| 1 | 2 |

<div>kept</div>

The end."""
CTRL_D = "\x04"


def first_user_texts(exchange: Exchange) -> list[str]:
    body = exchange.body
    assert isinstance(body, dict)
    messages = [message for message in body["messages"] if message["role"] == "user"]
    return [block["text"] for message in messages for block in message["content"] if block["type"] == "text"]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_markdown_is_rendered_block_by_block(size: int) -> None:
    blocks = MarkdownBlocks()
    shown = [blocks.add(ANSWER[at : at + size]) for at in range(0, len(ANSWER), size)]
    whole = "".join([*shown, blocks.end()])
    lines = [line.strip() for line in whole.splitlines() if line.strip()]
    assert lines[:5] == ["Tea", "Use green <name> tea (http://tea.example).", "• one", "• two more", "x = 1"]
    assert lines[5] == "y = 2"
    assert lines[-2:] == ["<div>kept</div>", "The end."]
    assert sum(map(bool, shown)) > (0 if size == 1000 else 4)
    assert blocks.end() == ""


def test_a_list_is_shown_when_it_is_complete() -> None:
    blocks = MarkdownBlocks()
    assert blocks.add("Two:\n\n- a\n") == "Two:\n"
    assert blocks.add("- b\n\n") == ""
    assert blocks.add("Done.\n") == "\n • a\n • b\n"
    assert blocks.end() == "\nDone.\n"


def test_control_characters_are_escaped() -> None:
    shown = rendered("a\x1b]52;c;x\x07 `b\x9b2J` [c](http://x/\x1b)\r\n")
    assert not set("\x1b\x07\x9b\r") & set(shown)
    assert "\\x1b]52;c;x\\x07" in shown


def test_the_sdk_is_imported_behind_the_first_prompt(tmp_path: Path) -> None:
    """Python writes each import to the terminal, so their order is visible."""
    with interactive(
        tmp_path, "--at", AT, "chat", "--base-url", "http://127.0.0.1:9", PYTHONPROFILEIMPORTTIME="1"
    ) as shown:
        before = shown.expect("\r\n> ")
        shown.expect(" anthropic\r\n")
        assert "readline" in before
        imported = set(re.findall(r"\|\s+([a-z0-9_]+)", before))
        assert not imported & {"anthropic", "httpx2", "pydantic", "rich"}


@pytest.mark.long
def test_an_answer_with_markdown_and_a_diff(tmp_path: Path) -> None:
    script = Script((Turn(("Let me **note** it.", NOTE)), Turn((ANSWER,))))
    with scripted_claude(script) as server:
        with interactive(tmp_path, "--at", AT, "chat", "--base-url", server.url) as shown:
            shown.expect("\r\n> ")
            shown.type("Hi.\r")
            shown.expect("Claude is working")
            shown.expect("Let me \x1b[1mnote\x1b[0m it.\r\n")
            shown.expect("\x1b[32m+\x1b[0m\x1b[32mlikes tea\x1b[0m")
            shown.expect("The end.\r\n> ")
            shown.type(CTRL_D)
            shown.expect("revert with `")
            undo = shown.expect("`.")
            shown.expect("Continue with `")
            again = shown.expect("`.")
            assert shown.end() == 0
        assert shown.shown.rfind("\x1b[?25h") > shown.shown.rfind("\x1b[?25l")  # the cursor is visible
        assert server.failures == []
    assert shlex.split(again)[:5] == ["retentive", "--at", AT, "chat", "--conversation"]
    done = subprocess.run(
        [RETENTIVE, *shlex.split(undo)[1:]], cwd=tmp_path, env=environment(tmp_path), capture_output=True, check=False
    )
    assert done.returncode == 0
    assert texts(f"sqlite:///{tmp_path}/memory.db") == {}


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "darwin", reason="libedit has no bracketed paste")
def test_several_lines_and_pasted_text_are_one_message(tmp_path: Path) -> None:
    script = Script(tuple(Turn((f"Answer {number}.",)) for number in range(1, 4)))
    with scripted_claude(script) as server:
        with interactive(tmp_path, "--at", AT, "chat", "--base-url", server.url, NO_COLOR="1") as shown:
            shown.expect("\r\n> ")
            shown.type("one \\\r")
            shown.expect("\r\n. ")
            shown.type("two\r")
            shown.expect("Answer 1.\r\n> ")
            shown.type("\x1b[200~/help me\nplease\x1b[201~")
            shown.expect("please")
            shown.type("\r")
            shown.expect("Answer 2.\r\n> ")
            shown.type("/me\t")
            shown.expect("/memory")
            shown.type("\r")
            shown.expect("/memories/\r\n> ")
            shown.type(CTRL_D)
            assert shown.end() == 0
        assert first_user_texts(server.requests[-1]) == ["one \ntwo", "/help me\nplease"]
