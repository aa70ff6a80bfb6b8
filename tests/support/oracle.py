"""Permitted trees after a crash, computed by the reference model of the commands.

A tree maps paths to texts. `apply` returns the tree after one command and the versions that the command adds. `allowed`
runs the acknowledged commands of a history; a command in flight is either complete or absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from .model import Model

Tree = dict[str, str]
Command = Mapping[str, object]
VersionKey = tuple[str, str, str]  # operation, path, sha256 of the text ("" for deleted)
Versions = Counter[VersionKey]


class RefusedError(Exception):
    """Raised if this tree refuses the command."""


@dataclass(frozen=True)
class Outcome:
    """A tree and all its versions."""

    tree: Tree
    versions: Versions = field(default_factory=Counter)


def apply(tree: Tree, command: Command) -> Outcome:
    """Return the tree after the command and the versions that it adds.

    Raises `RefusedError` if the command must fail.
    """
    model = Model(tree=dict(tree), max_memory_bytes=0, max_memories=0, max_store_bytes=0)
    expected = model.execute(command)
    if expected.is_error:
        raise RefusedError(expected.text or expected.start)
    operation = "created" if command["command"] == "create" else "modified"
    written = {path: text for path, text in model.tree.items() if tree.get(path) != text}
    added = Counter((operation, path, digest(text)) for path, text in written.items())
    if command["command"] == "delete":
        added.update(("deleted", path, "") for path in tree.keys() - model.tree.keys())
    return Outcome(model.tree, added)


def allowed(before: Outcome, acknowledged: Sequence[Command], in_flight: Sequence[Command]) -> list[Outcome]:
    """Return the permitted states: after all acknowledged commands, and then after each command in flight."""
    state = before
    for command in acknowledged:
        state = following(state, command)
    states = [state]
    for command in in_flight:
        states.append(following(states[-1], command))
    return states


def following(state: Outcome, command: Command) -> Outcome:
    """Return the state after one more command. A refused command does not change the state."""
    try:
        step = apply(state.tree, command)
    except RefusedError:
        return state
    return Outcome(step.tree, state.versions + step.versions)


def below(tree: Tree, path: str) -> list[str]:
    """Return the paths of the memories at or below a path."""
    return [each for each in tree if each == path or each.startswith(path + "/")]


def digest(text: str) -> str:
    """Return the sha256 of a version with this text."""
    return sha256(text.encode()).hexdigest()


def differs(found: Outcome, wanted: Outcome) -> str:
    """Describe the difference from the expected state. The description is empty if the states are equal."""
    parts = [f"lost {path}" for path in sorted(wanted.tree.keys() - found.tree.keys())]
    parts += [f"extra {path}" for path in sorted(found.tree.keys() - wanted.tree.keys())]
    common = sorted(found.tree.keys() & wanted.tree.keys())
    parts += [f"other text in {path}" for path in common if found.tree[path] != wanted.tree[path]]
    missing, more = wanted.versions - found.versions, found.versions - wanted.versions
    parts += [f"no version {operation} {path}" for operation, path, _ in missing]
    parts += [f"extra version {operation} {path}" for operation, path, _ in more]
    return "; ".join(parts)
