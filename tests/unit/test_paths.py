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
    "memories": OUTSIDE,
    "/memoriesfoo": OUTSIDE,
    "/Memories/a": OUTSIDE,
    "/etc/passwd": OUTSIDE,
    "/memories\\a": OUTSIDE,
    "/memories" + "x" * 2_000: OUTSIDE,
    "/memories/..": ABOVE,
    "/memories/../etc/passwd": ABOVE,
    "/memories/a/../b": "'..'",
    "/memories/a/..": "'..'",
    "/memories/../memories/a": ABOVE,
    "/memories/a/../..": ABOVE,
    "/memories/a/../../b": ABOVE,
    "/memories//..": ABOVE,
    "/memories/./..": ABOVE,
    "/memories/a\\b/../../c": ABOVE,
    "/memories/a/../b/..": "'..'",
    "/memories/.": "'.'",
    "/memories/./a": "'.'",
    "/memories/a/./b": "'.'",
    "/memories/a\\b": "backslash",
    "/memories/..\\..\\etc": "backslash",
    "/memories/a\0b": "U+0000",
    "/memories/a\nb": "U+000A",
    "/memories/a\tb": "U+0009",
    "/memories/a\x7fb": "U+007F",
    "/memories/a\x85b": "U+0085",
    "/memories/a\u00adb": "U+00AD",
    "/memories/a\u200bb": "U+200B",
    "/memories/a\u200d": "U+200D",
    "/memories/\u200ca/b": "U+200C",
    "/memories/a/\u200d/b": "U+200D",
    "/memories/a\u200c\u200db": "U+200C",
    "/memories/a\u200d\u200db": "U+200D",
    "/memories/.\u200c.": "",
    "/memories/.%e2%80%8d.": "",
    "/memories/.git": ".git is reserved",
    "/memories/.git/": ".git is reserved",
    "/memories/a//.GIT/config": ".git is reserved",
    "/memories/.g\u200cI\u200dt/x": ".git is reserved",
    "/memories/.Hg": ".hg is reserved",
    "/memories/.\u017fvn": ".svn is reserved",
    "/memories/.jj/repo": ".jj is reserved",
    "/memories/d/.Obsidian/app.json": ".obsidian is reserved",
    "/memories/.trash/a.md": ".trash is reserved",
    "/memories/é/.stVersions": ".stversions is reserved",
    "/memories/\u202ea": "U+202E",
    "/memories/\ufeffa": "U+FEFF",
    "/memories/a\u2028b": "U+2028",
    "/memories/a\u2029b": "U+2029",
    "/memories/a\ud800b": "U+D800",
    "/memories/a\U000e0001b": "U+E0001",
    "/memories/%2e%2e": "",
    "/memories/%2e": "",
    "/memories/a%2fb": "",
    "/memories/a%00b": "",
    "/memories/a%c2%85b": "",
    "/memories/%252e%252e": "",
    "/memories/%252525252525252e%252e": "",
    "/memories/．．": "",
    "/memories/‥": "",
    "/memories/a／b": "",
    "/memories/％２ｅ％２ｅ": "",
    "/memories/%ef%bc%8e%ef%bc%8e": "",
    "/memories/℀": "",
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\0b", "a\\u0000b"),
        ("\n\t\x1b", "\\u000a\\u0009\\u001b"),
        ("\u200b\ufeff", "\\u200b\\ufeff"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ud800", "\\ud800"),
        ("é😀 \u3000%", "é😀 \u3000%"),
    ],
)
def test_invisible_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert visible(text).lower() == shown


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


def test_paths_sort_by_the_bytes_of_their_utf8_form() -> None:
    texts = [
        "/memories/a b",
        "/memories/a.txt",
        "/memories/a/x",
        "/memories/aa",
        "/memories/é",
        "/memories/\uffee",
        "/memories/😀",
    ]
    assert sorted(texts) == sorted(texts, key=str.encode) == texts
