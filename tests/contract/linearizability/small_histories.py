"""Small histories, written manually or at random, and a brute-force checker."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from support.linearizability.checker import Command, Operation
from support.model import Model
from support.targets import UNKNOWN, Answer

A, B = "/memories/a.md", "/memories/b.md"
PATHS = (A, B, "/memories/d/x.md", "/memories/d/y.md")
PLACES = (*PATHS, "/memories", "/memories/d", "/memories/e", "/memories/a.md/below.md")
UNAVAILABLE = Answer("Error: The memory store is unavailable; try again later", is_error=True)
OUTCOME_UNKNOWN = Answer(f"Error: The {UNKNOWN}; view {A} before trying again", is_error=True)
GAP = 10  # time between two commands of a random history


def view(path: str = A) -> Command:
    return {"command": "view", "path": path}


def create(path: str = A, text: str = "one\n") -> Command:
    return {"command": "create", "path": path, "file_text": text}


def replace(old: str, new: str, path: str = A) -> Command:
    return {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def insert(text: str, path: str = A) -> Command:
    return {"command": "insert", "path": path, "insert_line": 0, "insert_text": text}


def delete(path: str = A) -> Command:
    return {"command": "delete", "path": path}


def rename(old: str = A, new: str = B) -> Command:
    return {"command": "rename", "old_path": old, "new_path": new}


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
    st.builds(replace, words, words, st.sampled_from(PATHS)),
    st.builds(insert, words, st.sampled_from(PATHS)),
    st.builds(delete, places),
    st.builds(rename, places, places),
)
near = st.integers(0, 3 * GAP)


@st.composite
def histories(draw: st.DrawFn, *, max_size: int) -> list[Operation]:
    """Histories of a sequential memory store in which the calls of the clients overlap."""
    asked = draw(st.lists(commands, min_size=1, max_size=max_size))
    return one_by_one(asked, [draw(st.tuples(near, near)) for _ in asked])
