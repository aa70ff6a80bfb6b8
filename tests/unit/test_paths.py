"""Memory paths: accepted paths, refused paths, and the replies to refused paths. `tests/attacks` has more spellings."""

from __future__ import annotations

import pickle
import time

import pytest

from retentive.errors import Refused
from retentive.values.paths import MemoryPath, is_editor_file, is_reserved, visible, visible_path
from retentive.values.replies import REPLIES, echo

OUTSIDE, ABOVE = "outside", "above"
REFUSED = {
    "": OUTSIDE,
    "/": OUTSIDE,
    "/memoriesfoo": OUTSIDE,
    "/Memories/a": OUTSIDE,
    "/etc/passwd": OUTSIDE,
    "/memories" + "x" * 2_000: OUTSIDE,
    "/memories/..": ABOVE,
    "/memories/../etc/passwd": ABOVE,
    "/memories/a/../b": "'..'",
    "/memories/a/../..": ABOVE,
    "/memories/./..": ABOVE,
    "/memories/a\\b/../../c": ABOVE,
    "/memories/.": "'.'",
    "/memories/a\\b": "backslash",
    "/memories/a\0b": "U+0000",
    "/memories/a\x85b": "U+0085",
    "/memories/a\u00adb": "U+00AD",
    "/memories/a\u200bb": "U+200B",
    "/memories/a\u200d": "U+200D",
    "/memories/\u200ca/b": "U+200C",
    "/memories/a\u200d\u200db": "U+200D",
    "/memories/.\u200c.": "",
    "/memories/.git": ".git is reserved",
    "/memories/a//.GIT/config": ".git is reserved",
    "/memories/.g\u200cI\u200dt/x": ".git is reserved",
    "/memories/.\u017fvn": ".svn is reserved",
    "/memories/d/.Obsidian/app.json": ".obsidian is reserved",
    "/memories/é/.stVersions": ".stversions is reserved",
    "/memories/\u202ea": "U+202E",
    "/memories/a\u2028b": "U+2028",
    "/memories/a\ud800b": "U+D800",
    "/memories/a\U000e0001b": "U+E0001",
    "/memories/%2e%2e": "",
    "/memories/a%2fb": "",
    "/memories/a%c2%85b": "",
    "/memories/%252e%252e": "",
    "/memories/．．": "",
    "/memories/a／b": "",
    "/memories/%ef%bc%8e%ef%bc%8e": "",
    "/memories/" + "x" * 256: "255",
    "/memories/" + "é" * 128: "255",
    "/memories/" + "e\u0301" * 128: "255",
    "/memories/a/" + "😀" * 64 + "/b": "255",
    "/memories" + "/x" * 21: "20",
    "/memories/" + "/".join(["x" * 204] * 5) + "x": "1024|1,024",
}


SENTENCES = {
    OUTSIDE: "Error: Path must start with /memories, got: {}",
    ABOVE: "Error: Path {} would escape /memories directory",
}


def refusal(written: str) -> str:
    with pytest.raises(Refused) as caught:
        MemoryPath.parse(written)
    return REPLIES.error(caught.value.key, caught.value.values).text


@pytest.mark.parametrize(("written", "reason"), REFUSED.items(), ids=range(len(REFUSED)))
def test_refused_paths_say_why(written: str, reason: str) -> None:
    """The reply is one of three sentences. It shows invisible characters as escapes and truncates long paths."""
    shown = echo(visible(written))
    reply = refusal(written)
    if reason in SENTENCES:
        assert reply == SENTENCES[reason].format(shown)
        return
    assert reply.startswith(f"Error: Invalid path {shown}: ")
    words = reply.removeprefix(f"Error: Invalid path {shown}: ")
    assert words
    assert any(part in words for part in reason.split("|"))


def test_names_that_are_reserved_or_of_editors() -> None:
    reserved = [".git", ".GIT", ".hg", ".svn", ".jj", ".obsidian", ".Trash", ".stversions", ".g\u200dit"]
    assert [name for name in [*reserved, "git", ".gitignore", ".git ", "", "%2egit"] if is_reserved(name)] == reserved
    editors = ["a.md~", "~", "#a.md#", "##", ".a.md.swp", "..swx", ".a\n.swo", "~$a.docx", "4913", "a.py.orig", ".orig"]
    others = ["a~.md", "#a.md", "#", "a.swp", ".swp", ".a.swap", "$~a", "4913.md", "49130", "orig", "a.orig.md"]
    assert [name for name in [*editors, *others] if is_editor_file(name)] == editors


def test_an_accepted_path_is_shown_as_it_is() -> None:
    """Only characters that no accepted path contains are escaped."""
    assert visible_path("/memories/می\u200cخ/👩\u200d💻") == "/memories/می\u200cخ/👩\u200d💻"
    assert visible_path("/memories/a\u200d/\u200cb\x1b") == "/memories/a\\u200d/\\u200cb\\u001b"
    assert visible("a\u200db") == "a\\u200db"


def test_paths_of_a_megabyte_and_of_5000_levels_are_refused_at_once() -> None:
    """The work depends on the limits of a path, not on the length of the input."""
    for written in ("/memories/" + "%25" * 300_000, "/memories" + "/a" * 5_000, "/memories/" + "．" * 100_000):
        assert len(refusal(written)) < 2_200


def test_long_runs_of_combining_marks_are_refused_at_once() -> None:
    """Normalizing such a run takes quadratic time: 20 s for 160,000 marks, during which all other threads wait."""
    start = time.thread_time()
    assert "255" in refusal("/memories/a" + "\u0301\u0323" * 80_000)
    assert time.thread_time() - start < 5  # CPU time of this thread, so that the load of the machine does not matter


def test_paths_written_differently_are_equal() -> None:
    """Equality and hash depend on the canonical path only. Pickling keeps the path as it was written."""
    one, other = MemoryPath.parse("/memories//a/"), MemoryPath.parse("/memories/a")
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)).written == "/memories//a/"
