"""The ordered map of object storage, tested without storage against a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from retentive.storage.objects.ordered_map import OrderedMap, Rebuild, Sizes, Tree
from retentive.storage.objects.records import Page, Ref, decode_page

SIZES = Sizes(log=4, page=4, fan_out=3)
ALL = [f"rkind\0{number:02}" for number in range(61)]
KEYS = st.sampled_from(ALL)
EDITS = st.lists(st.dictionaries(KEYS, st.none() | st.just("=x") | st.just("=y"), max_size=30), max_size=12)


class Written:
    """The pages written by rebuilds, decoded from their bytes. It counts the calls of `read`."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.read = 0

    def add(self, pages: Mapping[str, tuple[bytes, Page]]) -> None:
        self.data.update({name: data for name, (data, _) in pages.items()})

    def pages(self, refs: Sequence[Ref]) -> list[Page]:
        self.read += len(refs)
        return [decode_page(self.data[ref.name]) for ref in refs]


def reachable(tree: Tree, pages: Written) -> list[Ref]:
    """Return the references to all pages of a tree."""
    level, found = list(tree.refs), list(tree.refs)
    for _ in range(tree.depth):
        level = [ref for node in pages.pages(level) for ref in node.refs]
        found += level
    return found


@example([dict.fromkeys(ALL, "=x"), dict.fromkeys(ALL), {ALL[0]: "=y"}], 3, ALL[0], ALL[1])  # a deep tree is emptied
@given(EDITS, st.integers(0, 12), KEYS, KEYS)
def test_a_map_equals_a_dictionary(batches: list[dict[str, str | None]], kept: int, low: str, high: str) -> None:
    """After any number of rebuilds, reads by key and by range, in both directions, agree with the dictionary."""
    tree, pages, expected = Tree(), Written(), dict[str, str]()
    overlay: dict[str, str | None] = {}
    for number, batch in enumerate(batches):
        for key, value in batch.items():
            expected.pop(key, None)
            if value is not None:
                expected[key] = value
        overlay |= batch
        if number < kept:
            rebuilt = Rebuild(tree, overlay, pages=pages.pages, sizes=SIZES, generation=number)
            pages.add(rebuilt.written)
            tree, overlay = rebuilt.tree, {}
            firsts = {ref.first for ref in reachable(tree, pages)}
            assert firsts <= expected.keys()  # the pages contain no trace of a removed key
            assert len(tree.refs) <= SIZES.fan_out
    found = OrderedMap(tree, overlay, pages.pages)
    everything = sorted(expected.items())
    assert [found.get(key) for key in ALL] == [expected.get(key) for key in ALL]
    assert [item for chunk in found.chunks("r", "s") for item in chunk] == everything
    backwards = [item for chunk in found.chunks("r", "s", reverse=True) for item in reversed(chunk)]
    assert backwards == everything[::-1]
    between = [value for key, value in everything if low <= key < high]
    assert list(found.values(low, high)) == (between if low < high else [])
    assert found.has_any(low, high) == bool(between)
