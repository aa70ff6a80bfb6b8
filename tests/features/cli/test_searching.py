"""`search`: output for people, pipes and programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import retentive
from support.command_line import here, process, terminal

TEXTS = {
    "/memories/refunds.md": "Refunds within 30 days.\n\nNo refund for refund fees.\n",
    "/memories/team/rules.md": "Ask before a REFUND.\n",
    "/memories/team/refund/other.md": "Nothing of it.\n",
}


@pytest.fixture
def location(tmp_path: Path) -> str:
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as opened:
        for path, text in TEXTS.items():
            opened.store().execute({"command": "create", "path": path, "file_text": text})
    return at


def test_in_a_pipe_each_line_has_its_path_and_number(location: str) -> None:
    """The best match comes first. A match in the path alone has no line."""
    ended = here(location, "search", "refund")
    assert ended.stdout.splitlines() == [
        "/memories/refunds.md\t1\tRefunds within 30 days.",
        "/memories/refunds.md\t3\tNo refund for refund fees.",
        "/memories/team/rules.md\t1\tAsk before a REFUND.",
        "/memories/team/refund/other.md\t\t",
    ]
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("refund", "+fees"), ["/memories/refunds.md"]),
        (("--all", "fund", "fees"), ["/memories/refunds.md"]),
        (("--history", "days"), ["/memories/refunds.md"]),
        (("--as-of", "r1", "refund"), ["/memories/refunds.md"]),
        (("--", "refund", "-30"), ["/memories/team/rules.md", "/memories/team/refund/other.md"]),
        (("--", "refund", "-fees"), ["/memories/team/rules.md", "/memories/team/refund/other.md"]),
        (("refund", "--under", "/memories/team/refund"), ["/memories/team/refund/other.md"]),
        (("refund", "--path", "/memories/*.md"), ["/memories/refunds.md"]),
        (("--regex", r"^Ref.*\d+ days"), ["/memories/refunds.md"]),
    ],
)
def test_search_filters(location: str, arguments: tuple[str, ...], found: list[str]) -> None:
    ended = here(location, "search", *arguments)
    assert ended.exit_code == 0
    assert list(dict.fromkeys(line.split("\t")[0] for line in ended.stdout.splitlines())) == found


@pytest.mark.long
def test_omitted_results_are_counted(location: str, tmp_path: Path) -> None:
    """In a pipe, the number of omitted results is printed to standard error."""
    ended = process(tmp_path, "--at", location, "search", "refund", "-n", "1")
    assert (ended.out.count(b"\n"), ended.err) == (2, "1 of 3 memories; -n shows more.\n")
    assert terminal(tmp_path, "--at", location, "search", "refund", "-n", "2").endswith(
        "2 of 3 memories; -n shows more.\r\n"
    )
    assert terminal(tmp_path, "--at", location, "search", "refund").endswith("3 memories.\r\n")
    none = terminal(tmp_path, "--at", location, "search", "nowhere")
    assert none == "0 memories.\r\nNo memory contains nowhere.\r\n"
    here(location, "create", "/memories/long", "word\n" * 7)
    assert "\r\n4 more lines\r\n" in terminal(tmp_path, "--at", location, "search", "word", NO_COLOR="1")


def test_on_a_terminal_what_matches_is_marked(location: str, tmp_path: Path) -> None:
    shown = terminal(tmp_path, "--at", location, "search", "refund").replace("\r\n", "\n").splitlines()
    assert shown[0].startswith(
        "\x1b[36m/memories/\x1b[0m\x1b[30m\x1b[43mrefunds\x1b[0m\x1b[36m.md\x1b[0m  \x1b[90mjust"
    )
    assert shown[4] == "\x1b[32m     1\x1b[0m  Ask before a \x1b[30m\x1b[43mREFUND\x1b[0m."
    plain = terminal(tmp_path, "--at", location, "search", "days", NO_COLOR="1").replace("\r\n", "\n").splitlines()
    assert plain[0].startswith("/memories/refunds.md  ")
    assert plain[1:] == ["     1  Refunds within 30 days.", "1 memory."]


def test_json_has_the_spans_of_matches(location: str) -> None:
    found = json.loads(here(location, "search", "refund", "--json").stdout)
    assert found["total"] == 3
    hit = found["hits"][0]
    assert (hit["path"], hit["lines"], hit["path_spans"]) == ("/memories/refunds.md", 2, [[10, 17]])
    assert hit["snippets"][1] == {
        "line": 3,
        "text": "No refund for refund fees.",
        "spans": [[3, 9], [14, 20]],
        "headings": [],
    }
    with retentive.open(location) as opened:
        assert opened.store().load(hit["path"])[0].version_id == hit["version_id"]
    limited = json.loads(here(location, "search", "refund", "--json", "-n", "0").stdout)
    assert limited == {"total": 3, "hits": [], "damaged": [], "unknown": [], "relaxed": False}


@pytest.mark.parametrize("arguments", [(), ("",), ("--regex", "("), ("x", "--under", "/etc"), ("x", "--path", "notes")])
def test_invalid_queries_are_rejected(location: str, arguments: tuple[str, ...]) -> None:
    ended = here(location, "search", *arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr != ""
