"""The checker accepts exactly the linearizable histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.commands import create as created
from support.commands import delete, edit, insert, rename, view
from support.linearizability.checker import Command, Operation, Search, UndecidedError, find_failure, why_not
from support.model import Model
from support.profiles import some
from support.targets import Answer

A, B = "/memories/a", "/memories/b"
PATHS = (A, B, "/memories/d/x.md", "/memories/d/y.md")
PLACES = (*PATHS, "/memories", "/memories/d", "/memories/e", f"{A}/below.md")
GAP = 10  # time between two commands of a random history


def create(path: str = A, text: str = "one\n") -> Command:
    return created(path, text)


def answer(command: Command, tree: dict[str, str]) -> Answer:
    """Run a command on this tree, update the tree, and return the reply."""
    expected = Model(tree=tree).execute(command)
    return Answer(expected.text or expected.start + "...", expected.is_error)


def did(called: int, returned: int, command: Command, tree: dict[str, str]) -> Operation:
    """Operation of a command with the reply that these memories give."""
    return Operation(f"at {called}", command, called, returned, answer(command, dict(tree)))


def one_by_one(commands: Sequence[Command], spans: Sequence[tuple[int, int]]) -> list[Operation]:
    """History of commands that take effect in sequence, with these delays before and after the effect."""
    tree: dict[str, str] = {}
    history = []
    for number, (command, (before, after)) in enumerate(zip(commands, spans, strict=True)):
        moment = number * GAP
        said = answer(command, tree)
        history.append(Operation(str(number), command, moment - before, moment + after, said))
    return history


def is_linearizable(history: Sequence[Operation], tree: dict[str, str] | None = None) -> bool:
    """Try every order of the history, without caching."""
    known = [each for each in history if each.known]
    if not known:
        return True
    ends = min(each.returned for each in known)
    for each in history:
        if each.called > ends:
            continue
        model = Model(tree=dict(tree or {}))
        expected = model.execute(each.command)
        said = each.answer
        fits = not each.known or (said is not None and expected.fits(said.text, is_error=said.is_error))
        if fits and is_linearizable([other for other in history if other is not each], model.tree):
            return True
    return False


places = st.sampled_from(PLACES)
texts = st.sampled_from(["x\n", "x\ny\n", "y\n"])
words = st.sampled_from(["x", "y", "z"])
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(view, places),
    st.builds(create, st.sampled_from(PATHS), texts),
    st.builds(edit, words, words, st.sampled_from(PATHS)),
    st.builds(insert, st.just(0), words, st.sampled_from(PATHS)),
    st.builds(delete, places),
    st.builds(rename, places, places),
)
near = st.integers(0, 3 * GAP)


@st.composite
def histories(draw: st.DrawFn, *, max_size: int) -> list[Operation]:
    """Histories of a sequential memory store in which the calls of the clients overlap."""
    asked = draw(st.lists(commands, min_size=1, max_size=max_size))
    return one_by_one(asked, [draw(st.tuples(near, near)) for _ in asked])


ONE = {A: "one\n"}
CREATED = did(0, 10, create(A), {})
D = "/memories/d"
PAIR = {f"{D}/x.md": "x\n", f"{D}/y.md": "y\n"}
BOTH_CREATED = [did(0, 1, create(f"{D}/x.md", "x\n"), {}), did(2, 3, create(f"{D}/y.md", "y\n"), {})]

REJECTED: dict[str, list[Operation]] = {
    "a lost update": [
        CREATED,
        did(20, 40, insert(0, "first"), ONE),
        did(20, 40, insert(0, "second"), ONE),
        did(50, 60, view(), {A: "second\none\n"}),
    ],
    "a stale read": [CREATED, did(20, 30, edit("one", "two"), ONE), did(40, 50, view(), ONE)],
    "a rename seen half done": [
        *BOTH_CREATED,
        did(10, 90, rename(D, "/memories/e"), PAIR),
        did(20, 30, view(f"{D}/x.md"), {}),
        did(40, 50, view(f"{D}/y.md"), PAIR),
    ],
    "two clients that saw two edits in different orders": [
        did(0, 1, create(A, "a\n"), {}),
        did(2, 3, create(B, "b\n"), {}),
        did(10, 90, delete(A), {A: "a\n"}),
        did(10, 90, delete(B), {B: "b\n"}),
        did(20, 30, view("/memories"), {A: "a\n"}),
        did(20, 30, view("/memories"), {B: "b\n"}),
    ],
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_non_linearizable_history_is_rejected(name: str) -> None:
    """The explanation shows the reply that does not fit the history."""
    assert why_not(REJECTED[name]).startswith("Not linearizable: ")
    assert not is_linearizable(REJECTED[name])


def test_too_many_configurations_are_undecided() -> None:
    inserts = [did(20, 90, insert(0, str(number)), ONE) for number in range(6)]
    assert find_failure([CREATED, *inserts]) is None
    with pytest.raises(UndecidedError):
        Search([CREATED, *inserts], limit=100).run()
    with pytest.raises(UndecidedError):
        Search([CREATED, *inserts]).has_order(visits=10)


@pytest.mark.parametrize("seen", some(["5\n0\n3\none\n", "0\n3\n5\none\n"], 2))
def test_many_unknown_outcomes_have_an_order_if_there_is_one(seen: str) -> None:
    """There are more than 16 factorial configurations: each insertion takes effect at any time or never."""
    unknown = [did(20, 90, insert(0, str(number)), ONE) for number in range(16)]
    history = [CREATED, *(changed(each, answer=None) for each in unknown), did(100, 110, view(), {A: seen})]
    with pytest.raises(UndecidedError):
        Search(history, limit=1_000).run()
    assert Search(history).has_order()


@given(histories(max_size=25))
def test_sequential_histories_are_accepted(history: list[Operation]) -> None:
    assert why_not(history) == ""


@given(st.data())
def test_the_result_equals_brute_force(data: st.DataObject) -> None:
    """The small histories are valid ones, and ones with exchanged replies, unknown outcomes or late calls."""
    history = data.draw(histories(max_size=6))
    numbers = st.integers(0, len(history) - 1)
    first, second = data.draw(numbers), data.draw(numbers)
    said = history[first].answer
    history[first] = changed(history[first], answer=history[second].answer)
    history[second] = changed(history[second], answer=said)
    if data.draw(st.booleans()):
        forgotten = data.draw(numbers)
        history[forgotten] = changed(history[forgotten], answer=None)
    if data.draw(st.booleans()):
        late = data.draw(numbers)
        history[late] = changed(history[late], called=history[late].returned)
    assert (why_not(history) == "") is is_linearizable(history), history
    assert Search(history).has_order() is is_linearizable(history), history
