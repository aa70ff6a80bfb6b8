"""Hypothesis strategies for texts with many line ends, paths near existing ones, and almost valid commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

from .shape import ALIASES, NAMES, OPTIONAL, REQUIRED, Fields
from .walk import HIDDEN, LINE_ENDS, NAMES_USED, REFUSED

Strategy: TypeAlias = st.SearchStrategy[str]

texts = st.text(alphabet="ab \té😀" + LINE_ENDS, max_size=40)
any_texts = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
short_texts = st.text(alphabet="ab\n", max_size=3)

segments = st.sampled_from(NAMES_USED + HIDDEN)
plain_paths = st.lists(st.sampled_from(NAMES_USED[:7] + HIDDEN[:2]), min_size=1, max_size=4).map(
    lambda names: "/memories/" + "/".join(names)
)
_ESCAPING = (
    *(
        ".",
        "..",
        "/",
        "\\",
        "%",
        "%2e",
        "%2F",
        "%5c",
        "%00",
        "%25",
        "%c0%ae",
        "%zz",
        "．",
        "／",
        "＼",
        "％",
        "２",
        "ｅ",
    ),
    *("a", "é", "e\u0301", "\u200b", "\u200c", "\u200d", "\ufeff", "\n", "‥", "…", "⅓", "ﬁ", " ", "\u0338"),
)
odd_segments = st.lists(st.sampled_from(_ESCAPING), max_size=6).map("".join) | segments
odd_paths = st.lists(odd_segments, max_size=5).map(lambda names: "/".join(["/memories", *names]))
any_paths = odd_paths | plain_paths | st.sampled_from(REFUSED) | st.text(max_size=12) | st.just("/memories")


def paths_near(existing: Sequence[str]) -> Strategy:
    """Paths of which most exist, or are above, below or beside an existing path. A few are arbitrary."""
    elsewhere = st.sampled_from(["/memories", "/memories/", "/memories//", *REFUSED]) | odd_paths
    if not existing:
        return weighted((6, plain_paths), (1, elsewhere))
    known = st.sampled_from(sorted(existing))
    above = known.map(_parent)
    beside = st.tuples(above, segments).map("/".join)
    written_oddly = above.map(lambda path: path + "/") | known.map(lambda path: path.replace("/", "//", 2) + "/")
    below = st.tuples(known, segments).map("/".join)
    return weighted(
        (8, known), (3, above), (1, above.map(_parent)), (4, beside), (3, plain_paths), (1, below), (1, written_oddly),
        (1, elsewhere),
    )  # fmt: skip


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0] or "/memories"


def weighted(*choices: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """One of several strategies, chosen with the given weights."""
    return st.sampled_from([choice for weight, choice in choices for _ in range(weight)]).flatmap(lambda choice: choice)


def _as_models_send(number: int) -> st.SearchStrategy[object]:
    return st.sampled_from([number, number, number, str(number), float(number)])


line_numbers = st.one_of(
    st.integers(-2, 9).flatmap(_as_models_send), st.sampled_from([10**17, -(10**17), "007", "-0", 10**30])
)
ranges = st.one_of(
    st.tuples(line_numbers, line_numbers | st.just(-1)).map(list),
    st.tuples(st.integers(-1, 9), st.integers(-1, 12)).map(lambda pair: f"[{pair[0]}, {pair[1]}.0]"),
)

scalars: st.SearchStrategy[object] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=10),
    st.binary(max_size=4),
    st.sampled_from([10**950, -(10**950), float("nan"), object(), 1 + 2j, "\ud800", "a\0b", "1.0", " 1", "1\n", "١"]),
)
wild: st.SearchStrategy[object] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4) | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


def field_values(field: str, existing: Sequence[str]) -> st.SearchStrategy[object]:
    """Values of the correct type for a field."""
    if field.endswith("path"):
        return paths_near(existing)
    by_name: dict[str, st.SearchStrategy[object]] = {
        "view_range": ranges,
        "insert_line": line_numbers,
        "old_str": short_texts,
        "new_str": texts,
    }
    return by_name.get(field, texts)


def commands(existing: Sequence[str] = ()) -> st.SearchStrategy[Fields]:
    """Valid commands, sometimes with an alias or an unknown field."""
    return st.sampled_from(NAMES).flatmap(lambda name: command_named(name, existing))


@st.composite
def command_named(draw: st.DrawFn, name: str, existing: Sequence[str]) -> Fields:
    command: Fields = {"command": name}
    for field in REQUIRED[name]:
        key = ALIASES.get((name, field), field) if draw(st.integers(0, 7)) == 0 else field
        command[key] = draw(field_values(field, existing))
    for field in OPTIONAL.get(name, ()):
        if draw(st.booleans()):
            command[field] = draw(st.none() | field_values(field, existing))
    if draw(st.integers(0, 9)) == 0:
        command["reason"] = draw(wild)
    return command


@st.composite
def invalid_commands(draw: st.DrawFn, existing: Sequence[str] = ()) -> object:
    """Commands with a missing field or a field of the wrong type, and values that are not commands."""
    if draw(st.integers(0, 5)) == 0:
        return draw(wild)
    command = dict(draw(commands(existing)))
    victim = draw(st.sampled_from(sorted(command)))
    if draw(st.booleans()):
        del command[victim]
    else:
        command[victim] = draw(wild)
    return command
