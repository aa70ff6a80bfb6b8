"""The LangGraph store gives the results of LangGraph's own store in memory, and keeps what a memory store promises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import retentive
from retentive import InvalidInput, MemoryStore
from retentive.errors import Damaged
from retentive.integrations.langgraph import LangGraphStore
from support.profiles import sized

ALL = 1_000
LABELS = st.sampled_from(["a", "b", "é x"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
KEYS = st.sampled_from(["k", "l.json", "", "ü 1", "/n/~m.md"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.sampled_from(["", "x\ny", "é"]))
FIELDS = st.sampled_from(["one", "two"])
VALUES = st.dictionaries(FIELDS, st.recursive(SCALARS, lambda each: st.lists(each, max_size=2), max_leaves=4))
EQUAL = st.dictionaries(
    FIELDS, st.one_of(SCALARS, st.dictionaries(st.sampled_from(["$eq", "$ne"]), SCALARS, min_size=1))
)
PATTERNS = st.lists(st.sampled_from(["a", "b", "*"]), max_size=2).map(tuple)
CONDITIONS = st.lists(st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PATTERNS), max_size=2).map(tuple)
FEW = st.integers(0, 4)
ANY_DEPTH = st.one_of(st.none(), st.integers(1, 3))
OPS: st.SearchStrategy[Op] = st.one_of(
    st.tuples(NAMESPACES, KEYS, st.one_of(VALUES, VALUES, st.none())).map(lambda each: PutOp(*each)),
    st.tuples(NAMESPACES, KEYS).map(lambda each: GetOp(*each)),
    st.tuples(PREFIXES, st.one_of(st.none(), EQUAL), FEW, FEW).map(lambda each: SearchOp(*each)),
    st.tuples(CONDITIONS, ANY_DEPTH, FEW, FEW).map(lambda each: ListNamespacesOp(*each)),
)


class Model(InMemoryStore):
    """LangGraph's store in memory, with the results in order of paths and without empty namespaces."""

    def results(self, ops: list[Op]) -> list[object]:
        found = [None if isinstance(op, PutOp) else self._result(op) for op in ops]
        self.batch([op for op in ops if isinstance(op, PutOp)])
        return found

    def _result(self, op: Op) -> object:
        """Result of a read. Deletions leave empty namespaces, and reads of missing items create them."""
        for empty in [namespace for namespace, items in self._data.items() if not items]:
            del self._data[empty]
        if not isinstance(op, SearchOp):
            return plain(self.batch([op])[0])
        items = plain(self.batch([op._replace(limit=ALL, offset=0)])[0])
        by_path = sorted(items, key=lambda item: "/".join([*item[0], escaped(item[1])]))
        return by_path[op.offset : op.offset + op.limit]


def escaped(key: str) -> str:
    return key.replace("~", "~7E").replace("/", "~2F") + ".json"


def plain(result: Any) -> Any:
    """A result without the times, in JSON where `True` is not 1."""
    if isinstance(result, Item):
        return result.namespace, result.key, json.dumps(result.value, sort_keys=True)
    return [plain(each) for each in result] if isinstance(result, list) else result


@given(batches=st.lists(st.lists(OPS, max_size=4), max_size=sized(quick=4, long=12, full=15)), is_async=st.booleans())
def test_results_equal_those_of_the_store_in_memory(batches: list[list[Op]], is_async: bool) -> None:
    with retentive.open("sqlite://") as opened:
        ours, model = LangGraphStore(opened), Model()
        for ops in batches:
            results = asyncio.run(ours.abatch(ops)) if is_async else ours.batch(ops)
            assert [plain(each) for each in results] == model.results(ops)


def test_items_are_memories_with_history(store: MemoryStore) -> None:
    """An item is a readable file for the memory tool. Undo brings back its earlier value."""
    ours = LangGraphStore(store, actor="session:s1")
    ours.put(("users", "ann"), "likes", {"food": "rice", "since": 2024})
    ours.put(("users", "ann"), "likes", {"food": "tea", "since": 2026})
    assert store.read("/memories/users/ann/likes.json") == '{\n  "food": "tea",\n  "since": 2026\n}'
    assert {str(version.actor) for version in store.versions()} == {"session:s1"}
    store.undo("HEAD")
    item = ours.get(("users", "ann"), "likes")
    assert item is not None
    assert item.value == {"food": "rice", "since": 2024}


def test_a_query_ranks_by_the_words_of_the_values(store: MemoryStore) -> None:
    """Names of fields, keys and escapes of JSON are no words. A query has no operators."""
    ours = LangGraphStore(store)
    ours.put(("docs",), "first", {"text": "Refunds are paid\nweekly", "tags": ["money"]})
    ours.put(("docs",), "second", {"text": "Refunds and invoices: refunds take a week", "n": 2})
    ours.put(("docs",), "text", {"title": "nothing of it"})
    ours.put(("other",), "first", {"text": "refund"})

    def keys(query: str, **options: Any) -> list[str]:
        return [item.key for item in ours.search(("docs",), query=query, **options)]

    assert sorted(keys("refund")) == ["first", "second"]
    assert keys("paid weekly -refunds path:x")[0] == "first"
    assert keys("money") == keys("weekly", limit=1) == ["first"]
    assert keys("refund", filter={"n": 2}) == ["second"]
    assert keys("refund", offset=2) == keys("text first") == keys("???") == []
    best = ours.search((), query="invoices refund")
    assert best[0].key == "second"
    assert all(item.score for item in best)


REFUSED: list[tuple[type[Exception], Callable[[LangGraphStore], object]]] = [
    (NotImplementedError, lambda ours: ours.put(("a",), "k", {}, ttl=5)),
    (NotImplementedError, lambda ours: ours.batch([PutOp(("a",), "k", {}, ttl=5)])),
    (InvalidInput, lambda ours: ours.put(("a",), "k" * 251, {})),
    (InvalidInput, lambda ours: ours.put(("a",) * 20, "k", {})),
    (InvalidInput, lambda ours: ours.put(("a",), "k", {"pair": (1, 2)})),
    (InvalidInput, lambda ours: ours.put(("a",), "k", {"n": float("nan")})),
    (InvalidInput, lambda ours: ours.put(("a",), "k", {"by_number": {1: "one"}})),
    (InvalidInput, lambda ours: ours.put(("a",), "k", {"data": b"bytes"})),
    (InvalidInput, lambda ours: ours.put(("a",), "k", {"text": "x" * 200_000})),
    (InvalidInput, lambda ours: ours.put(("a",), "k", [1])),  # type: ignore[arg-type]  # on purpose
    (InvalidInput, lambda ours: ours.search(("a",), limit=-1)),
    (InvalidInput, lambda ours: ours.search(("a",), query="x" * 1_001)),
    (InvalidInput, lambda ours: ours.search((), filter={"n": {"$in": [1]}})),
    (InvalidInput, lambda ours: ours.batch([("a",)])),  # type: ignore[list-item]  # on purpose
    (InvalidNamespaceError, lambda ours: ours.batch([PutOp(("a.b",), "k", {})])),
    (InvalidNamespaceError, lambda ours: ours.batch([GetOp(("",), "k")])),
]


@pytest.mark.parametrize(("error", "call"), REFUSED)
def test_what_a_memory_cannot_hold_is_refused(
    store: MemoryStore, error: type[Exception], call: Callable[[LangGraphStore], object]
) -> None:
    ours = LangGraphStore(store)
    ours.put(("z",), "before", {"n": 1})
    with pytest.raises(error):
        call(ours)
    assert len(store.versions()) == 1


NAMES = [
    "/notes.md", "a/b", "a~2Fb", "~", "a\\b", "..", ".", "..%2f", "．．", "e\u0301", "zero\u200bwidth", "tab\t",
    "nul\0", "\ud83d", "\ud83d\ude00", "😀", ".git", "node_modules", "A", "a", "x.json", "\u2028", "/" * 83,
]  # fmt: skip


def test_any_name_is_a_key_and_a_label_of_its_own(store: MemoryStore) -> None:
    """Two names never share a memory, and each comes back as it was given."""
    ours, labels = LangGraphStore(store), [each for each in NAMES if not {".", "\0"} & {*each}]
    for number, name in enumerate(NAMES):
        ours.put(("keys",), name, {"number": number})
    for label in labels:
        ours.put((label, label), "k", {})
    found = {item.key: item.value["number"] for item in ours.search(("keys",), limit=ALL)}
    assert found == {name: number for number, name in enumerate(NAMES)}
    assert set(ours.list_namespaces(limit=ALL)) == {("keys",), *((each, each) for each in labels)}
    for number, name in enumerate(NAMES):
        item = ours.get(("keys",), name)
        assert item is not None
        assert (item.key, item.value) == (name, {"number": number})
        ours.delete(("keys",), name)
    assert ours.search(("keys",)) == []


def test_half_an_emoji_is_kept_and_its_item_is_found(store: MemoryStore) -> None:
    """A stream that was cut leaves a lone surrogate. LangGraph's store in memory keeps it too."""
    ours, model = LangGraphStore(store), Model()
    value = {"text": "tea \ud83d", "name\udc00": ["\udfff"]}
    for each in (ours, model):
        each.put(("a",), "k", value)
    assert plain(ours.get(("a",), "k")) == plain(model.get(("a",), "k"))
    assert [item.value for item in ours.search((), query="tea")] == [value]


def test_a_batch_may_have_any_number_of_writes(store: MemoryStore) -> None:
    ours = LangGraphStore(store)
    ours.batch([PutOp(("a",), f"{n:03}", {"n": n}) for n in range(250)])
    assert [item.value["n"] for item in ours.search((), limit=ALL)] == list(range(250))
    ours.batch([PutOp(("a",), f"{n:03}", None) for n in range(249)])
    assert [item.key for item in ours.search(())] == ["249"]
    assert len({version.revision for version in store.versions()}) == 6


def test_the_writes_of_a_batch_are_all_or_none(store: MemoryStore) -> None:
    ours = LangGraphStore(store)
    ours.put(("a",), "old", {"n": 1})
    with pytest.raises(InvalidInput):
        ours.batch([PutOp(("a",), "new", {}), PutOp(("a",), "old", None), PutOp(("a",), "long", {"x": "x" * 200_000})])
    assert [item.key for item in ours.search(())] == ["old"]
    ours.batch([PutOp(("a",), "new", {}), PutOp(("a",), "old", None), PutOp(("a",), "other", {})])
    assert [item.key for item in ours.search(())] == ["new", "other"]
    assert len({version.revision for version in store.versions()}) == 2


def test_other_memories_are_no_items(store: MemoryStore) -> None:
    """A memory with the name of an item and another text is an error, and a directory of that name is never deleted."""
    ours = LangGraphStore(store)
    ours.put(("a",), "k", {"n": 1})
    store.write("/memories/a/notes.md", "not an item")
    store.write("/memories/v1.2/k.json", "{}")
    store.write("/memories/a/tree.json/leaf", "kept")
    store.write("/memories/a/~.json", "not an item")
    store.write("/memories/a/~FF.json", "not an item")
    assert [item.key for item in ours.search(())] == ["k"]
    assert ours.list_namespaces() == [("a",)]
    ours.delete(("a",), "tree")
    assert store.read("/memories/a/tree.json/leaf") == "kept"
    store.write("/memories/b/k.json", "[1]")
    for call in (lambda: ours.get(("b",), "k"), lambda: ours.search(())):
        with pytest.raises(Damaged, match=r"/memories/b/k\.json does not contain a JSON object"):
            call()


class Said(TypedDict):
    said: str


def test_nodes_of_a_graph_share_the_store(store: MemoryStore) -> None:
    """Two runs with different threads; the second one reads what the first one has put."""

    async def remember(state: Said, runtime: Runtime[None]) -> Said:
        assert runtime.store is not None
        known = await runtime.store.aget(("users", "ann"), "facts")
        facts = [*(known.value["facts"] if known else []), state["said"]]
        await runtime.store.aput(("users", "ann"), "facts", {"facts": facts})
        return {"said": ", ".join(facts)}

    graph = StateGraph(Said)
    graph.add_node("remember", remember)
    graph.add_edge(START, "remember")
    compiled = graph.compile(store=LangGraphStore(store))
    said = [asyncio.run(compiled.ainvoke({"said": fact}))["said"] for fact in ("likes tea", "pays in euros")]
    assert said == ["likes tea", "likes tea, pays in euros"]
