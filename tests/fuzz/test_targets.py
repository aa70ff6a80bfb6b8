"""Each target holds for its corpus, and in the longer profiles for random changes of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import sized

from .targets import TARGETS, corpus

WORDS = (b"..", b"/", b"\0", b"%2e", b"\\", b"\xff", b"\xe2\x80\xae", b"javascript:", b"{", b'"', b"[", b"<", b"-")


def changed(data: st.DataObject, seeds: list[bytes]) -> bytes:
    """A seed with one to four parts replaced by a word, random bytes, another seed, or themselves many times."""
    found = data.draw(st.sampled_from(seeds))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(found)))
        end = at + data.draw(st.sampled_from([0, 1, 8, 64, 512]))
        part = st.sampled_from([*WORDS, *seeds, found[at:end] * 16]) | st.binary(max_size=16)
        found = found[:at] + data.draw(part) + found[end:]
    return found


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name: str) -> None:
    assert len(corpus(name)) >= 3
    for seed in corpus(name):
        TARGETS[name](seed)


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=sized(quick=1, long=200, full=20_000))
@given(data=st.data())
def test_changes_of_the_corpus(name: str, data: st.DataObject) -> None:
    TARGETS[name](changed(data, corpus(name)))
