"""Laws of paths: no path leaves the root, and an accepted path has exactly one canonical form."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from urllib.parse import unquote

from hypothesis import example, given
from hypothesis import strategies as st

from retentive.errors import Refused
from retentive.values.paths import MemoryPath
from retentive.values.replies import REPLIES
from support import model
from support.strategies import any_paths, odd_paths

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


@given(any_paths)
def test_limits_hold_after_normalisation(written: str) -> None:
    path = parse(written)
    if path is not None and not path.is_root:
        assert len(names_of(path)) <= 20
        assert len("/".join(names_of(path)).encode()) <= 1_024
        assert all(1 <= len(segment.encode()) <= 255 for segment in names_of(path))


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
        assert list(path.ancestors) == ["/".join(["/memories", *names[:end]]) for end in range(1, len(names))]
