"""Memory paths: accepted paths, refused paths, and the replies to refused paths. `tests/attacks` has more spellings."""

from __future__ import annotations

import os
import pickle
import time
import unicodedata
from collections.abc import Callable
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retentive.errors import Refused
from retentive.values.paths import MemoryPath, ancestors, is_editor_file, is_reserved, visible, visible_path
from retentive.values.replies import REPLIES, echo
from support import model
from support.strategies import any_paths, odd_paths

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


REAL_ROOT = "/srv/memory/memories"


def parse(written: str) -> MemoryPath | None:
    try:
        return MemoryPath.parse(written)
    except Refused:
        return None


def names_of(path: MemoryPath) -> tuple[str, ...]:
    return tuple(path.text.split("/")[2:])


@given(any_paths)
@example("/memories/%2525252e%2525252e")
@example("/memories/％２ｅ％２ｅ")
@example("/memories/%EF%BC%8E%EF%BC%8E")
@example("/memories/%%32%65%%32%65")
@example("/memories/⒈")
@example("/memories/.%E2%80%8C.")
@example("/memories/می\u200cخواهم/👩\u200d💻.md")
@example("/memories/a/.\u200dOBSIDIAN")
def test_paths_are_parsed_as_specified(written: str) -> None:
    """The parser agrees with an independent implementation of the specification."""
    path = parse(written)
    assert (path and path.text) == model.canonical(written)


@given(any_paths)
def test_a_canonical_path_parses_to_itself(written: str) -> None:
    """`parse(str(path)) == path`, and a parsed canonical path has the same string."""
    path = parse(written)
    if path is not None:
        again = MemoryPath.parse(str(path))
        assert (again, hash(again), str(again)) == (path, hash(path), path.text)
        assert path.written == written
        assert unicodedata.is_normalized("NFC", str(path))


def folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def joined(text: str) -> str:
    return text.replace("\u200c", "").replace("\u200d", "")


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@given(odd_paths, st.lists(st.sampled_from([unquote, folded, composed, joined]), max_size=10))
def test_no_accepted_path_leaves_the_root_after_decoding(written: str, steps: list[Callable[[str], str]]) -> None:
    """The path is decoded and normalized up to five times in any order, and then joined to a real directory."""
    path = parse(written)
    if path is None:
        return
    forms = list(names_of(path))
    for step in steps:
        forms = [step(form) for form in forms]
        for form in forms:
            assert form not in {".", ".."}
            assert not any(char in "/\\\0\n" for char in form)
        joined = os.path.normpath(os.path.join(REAL_ROOT, *forms))
        assert joined == REAL_ROOT or joined.startswith(REAL_ROOT + "/")
        assert joined.count("/") == REAL_ROOT.count("/") + len(forms)


@given(any_paths | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Lu"])).map("/memories/".__add__))
def test_a_rejection_escapes_invisible_characters(written: str) -> None:
    """The reply has the form `Error: Invalid path {path}: {reason}`, without invisible characters."""
    try:
        MemoryPath.parse(written)
    except Refused as refusal:
        reply = REPLIES.error(refusal.key, refusal.values)
    else:
        return
    assert reply.is_error
    assert not any(model.unseen(char) for char in reply.text)
    if len(written) < 300 and not any(model.unseen(char) for char in written):
        assert model.refused(written).expected.fits(reply.text, is_error=True)


@given(any_paths, any_paths)
def test_containment_is_by_whole_names(one: str, other: str) -> None:
    """`/memories/a` contains `/memories/a/b`. It contains neither `/memories/ab` nor `/memories/a` itself."""
    first, second = parse(one), parse(other)
    if first is not None and second is not None:
        below = len(names_of(second)) > len(names_of(first))
        assert first.contains(second) == (below and names_of(second)[: len(names_of(first))] == names_of(first))


@given(st.lists(any_paths, max_size=8))
def test_ancestors_are_the_directories_between(written: list[str]) -> None:
    for path in filter(None, map(parse, written)):
        names = names_of(path)
        assert list(ancestors(path.text)) == ["/".join(["/memories", *names[:end]]) for end in range(1, len(names))]
