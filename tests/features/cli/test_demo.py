"""`retentive demo`, which is `make run`: a process is killed, and the memory survives."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest

import retentive
from retentive.cli import demo
from support.command_line import interactive, process
from support.pages import ROOT

LAST = len(demo.TICKETS)
RIGHT = demo.named(demo.counted("\n".join(map(demo.read_week, demo.TICKETS))))


def test_the_targets_of_the_readme_exist() -> None:
    """README shows `make TARGET`, and `make run` starts the demo."""
    named = set(re.findall(r"^make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE))
    recipes = dict(re.findall(r"^(\w+):[^\n]*\n\t([^\n]+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert named == {"run", "test"} <= recipes.keys()
    assert recipes["run"] == "$(BIN)/retentive demo"


@pytest.mark.long
def test_the_work_survives_a_kill(tmp_path: Path) -> None:
    """In a pipe, the demo ends after the sessions."""
    done = process(tmp_path, "demo")
    assert done.status == 0, done.err
    shown = done.out.decode()
    lines = iter(shown.splitlines())
    expected = (
        f"user: {demo.TASK}",
        "   |      1\tWeeks done: 5",
        "claude: I have worked on this before.",
        f"claude: I have counted all {LAST} weeks. Returns: {RIGHT}.",
        f"The answer is right: counted without an agent, the returns are {RIGHT}.",
        "would be reverted\t/memories/returns.md",
    )
    missing = next((line for line in expected if line not in lines), None)
    assert missing is None, f"{missing!r} is not there, or not in this order: {shown}"
    assert shown.index("This process is killed (kill -9)") < shown.index("── The second session")
    assert re.findall(r"read_week (\d)", shown) == list("12345667")
    assert "{" not in shown + done.err  # no lines of a log
    (place,) = tmp_path.glob("memory-demo-*")
    with retentive.open(place) as opened:
        actors = [str(version.actor) for version in opened.store().versions(demo.NOTES)]
    assert actors == ["session:second"] * (LAST - demo.KILLED_AT + 1) + ["session:first"] * demo.KILLED_AT
    assert (place / "memories" / "returns.md").read_text("utf-8").endswith(f"So far: {RIGHT}.\n")


@pytest.mark.long
def test_on_a_terminal_the_console_follows(tmp_path: Path) -> None:
    """The first link signs in after one click. Each of the others opens its page."""
    with interactive(tmp_path, "demo", COLUMNS="300") as terminal:
        terminal.expect("See it in a browser")
        terminal.expect("undo it")
        terminal.expect("\n")
        sign_in, *pages = re.findall(r"http://\S+", terminal.shown)
        browser = build_opener(HTTPCookieProcessor())
        form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', read(browser, sign_in)))
        assert form.keys() == {"csrf", "next", "key"}
        activity = read(browser, sign_in.partition("?")[0], urlencode(form).encode())
        assert all(f"session:{name}" in activity for name in ("first", "second"))
        note, changes, undo = (read(browser, url) for url in pages)
        assert f"Weeks done: {demo.KILLED_AT - 1}" in note
        assert "returns.md" in changes
        assert "This is a preview" in undo
        terminal.type("\x03")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.shown
        assert '{"' not in terminal.shown


def read(browser: OpenerDirector, url: str, form: bytes | None = None) -> str:
    with browser.open(url, form, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.long
def test_a_location_with_memories_is_left_alone(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as memory:
        memory.store().create("/memories/mine", "mine")
    done = process(tmp_path, "--at", at, "demo")
    assert done.status == 2
    assert "already has memories; the script needs an empty store" in done.err
    assert not list(tmp_path.glob("memory-demo*"))
