"""Path and actor patterns: their matches, and a time limit for every pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retentive.errors import InvalidInput
from retentive.values.patterns import check_path_pattern, covers, matches_actor

NAMES = st.lists(st.text("ab", min_size=1, max_size=3), max_size=5)
PATTERNS = st.lists(st.sampled_from(["**", "**", "*", "?", "a", "b", "a*", "*b", "?a", "a*b", "a?*b"]), max_size=5)


def test_one_star_stays_within_a_name_and_two_do_not() -> None:
    """A single star does not match a slash, and two stars do. A pattern also matches everything below its matches."""
    assert covers(["/memories/*/x"], "/memories/a/x/y")
    assert not covers(["/memories/*/x"], "/memories/a/b/x")
    assert covers(["/memories/**/x"], "/memories/a/b/x")
    assert not covers(["/memories/**"], "/memories")
    assert covers(["/memories/a?c"], "/memories/abc")
    assert not covers(["/memories/a?c"], "/memories/a/c")
    assert covers(["/memories/*a*b*c"], "/memories/xaxbxc")
    assert not covers(["/memories/*a*b*c"], "/memories/xa/xbxc")


@given(st.text("ab/*?", max_size=9), st.text("ab/\n", max_size=9))
def test_actor_patterns_match_as_by_backtracking(pattern: str, text: str) -> None:
    """A star matches any text, and a question mark any character except a slash."""
    parts = ({"*": ".*", "?": "[^/]"}.get(char, char) for char in pattern)
    assert matches_actor(pattern, text) == (re.fullmatch("".join(parts), text, re.DOTALL) is not None)


def test_every_pattern_ends_in_bounded_time() -> None:
    """The pattern has as many stars as the limit allows, and the paths are the slowest ones to match."""
    assert not covers(["/memories/" + "*a" * 300 + "b"], "/memories/" + "a" * 250)
    assert not covers(["/memories/" + "**/*a/" * 10 + "b"], "/memories" + "/aaaaaaaaaaaa" * 20)
    assert not covers(["/memories" + "/**" * 300 + "/*a*a*a*b"], "/memories" + "/aaaaaaaaaaaa" * 20)
    assert not matches_actor("*a" * 300 + "b", "a" * 250)


def covered(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Reference matcher with Git's rules, by backtracking."""
    if not pattern:
        return True  # and everything below a match
    first, rest = pattern[0], pattern[1:]
    if first == "**" and not rest:
        return bool(names)
    if first == "**":
        return covered(rest, names) or (bool(names) and covered(pattern, names[1:]))
    return bool(names) and fnmatchcase(names[0], first) and covered(rest, names[1:])


@given(PATTERNS, NAMES)
@example(["**", "a"], ["a"])
@example(["**", "**"], ["a"])
@example(["**", "a", "**"], ["a"])
def test_two_stars_match_any_number_of_names(pattern: list[str], names: list[str]) -> None:
    """Two stars match any number of names, including zero. At the end they do not match the directory itself."""
    said = covers(["/".join(["/memories", *pattern])], "/".join(["/memories", *names]))
    assert said == covered(pattern, names)


def test_a_pattern_is_normalised_as_paths_are() -> None:
    """Some systems decompose accented characters as they are typed."""
    assert check_path_pattern("/memories/cafe\u0301/**") == "/memories/caf\u00e9/**"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("/memories/../x", "no path can have"),
        ("/memories/./**", "no path can have"),
        ("/memories/a\0", "no path can have"),
        ("/memories/a\n*", "no path can have"),
        ("/memories/\u200b", "no path can have"),
        ("/memories/a\\b", "no path can have"),
        ("/memories/.Git/**", "no path can have"),
        ("/memories/%2e%2e", "no path can have"),
        ("/memories/" + "x" * 256, "no path can have"),
        ("/memories" + "/x" * 21, "no path can have"),
        ("/memories/**.md", "replaces whole names"),
        ("/memories/a**/b", "replaces whole names"),
    ],
)
def test_a_pattern_that_no_path_can_match_is_refused(pattern: str, problem: str) -> None:
    """A guard with such a pattern would protect nothing, without a warning."""
    with pytest.raises(InvalidInput, match=problem):
        check_path_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "/memories/.*",
        "/memories/.git*",
        "/memories/a\u200db*",
        "/memories/?.",
        "/memories/*.*",
        "/memories/" + "x" * 255 + "*",
        "/memories" + "/**/x" * 20,
    ],
)
def test_a_pattern_that_some_path_matches_is_accepted(pattern: str) -> None:
    assert check_path_pattern(pattern) == pattern
