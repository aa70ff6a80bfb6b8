"""Permitted trees after a crash: a model of the commands that shares no code with retentive.

A tree maps paths to texts. `apply` returns the tree after one command and the versions it adds; `allowed`
runs a history of acknowledged commands, with the command in flight either complete or absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Tree = dict[str, str]
Command = Mapping[str, object]
VersionKey = tuple[str, str, str]  # operation, path, sha256 of the text ("" for deleted)
Versions = Counter[VersionKey]


class RefusedError(Exception):
    """The command is refused in this tree."""


@dataclass(frozen=True)
class Outcome:
    """A tree with all its versions."""

    tree: Tree
    versions: Versions = field(default_factory=Counter)


def apply(tree: Tree, command: Command) -> Outcome:
    """The tree after the command and the versions it adds; raises RefusedError if the command must fail."""
    path = str(command.get("path", command.get("old_path")))
    match command["command"]:
        case "view":
            return Outcome(tree)
        case "create":
            _refuse_if(_exists(tree, path))
            return _with(tree, {path: str(command["file_text"])}, "created")
        case "str_replace":
            return _with(tree, {path: _replace(_text(tree, path), command)}, "modified")
        case "insert":
            return _with(tree, {path: _insert(_text(tree, path), command)}, "modified")
        case "delete":
            return _delete(tree, path)
        case "rename":
            return _rename(tree, path, str(command["new_path"]))
    raise ValueError(command)


def allowed(before: Outcome, acknowledged: Sequence[Command], in_flight: Sequence[Command]) -> list[Outcome]:
    """The permitted states: all acknowledged commands, then zero or more of those in flight."""
    state = before
    for command in acknowledged:
        state = following(state, command)
    states = [state]
    for command in in_flight:
        states.append(following(states[-1], command))
    return states


def following(state: Outcome, command: Command) -> Outcome:
    """The state after one more command; a refused command does not change it."""
    try:
        step = apply(state.tree, command)
    except RefusedError:
        return state
    return Outcome(step.tree, state.versions + step.versions)


def below(tree: Tree, path: str) -> list[str]:
    """The paths of the memories at or below a path."""
    return [each for each in tree if each == path or each.startswith(path + "/")]


def digest(text: str) -> str:
    """The sha256 of a version with this text."""
    return sha256(text.encode()).hexdigest()


def occurrences(text: str, part: str) -> int:
    """The number of occurrences of a part in a text, overlapping ones included."""
    count, at = 0, text.find(part)
    while at >= 0:
        count, at = count + 1, text.find(part, at + 1)
    return count


def differs(found: Outcome, wanted: Outcome) -> str:
    """The difference to the expected state, in words; empty if equal."""
    parts = [f"lost {path}" for path in sorted(wanted.tree.keys() - found.tree.keys())]
    parts += [f"extra {path}" for path in sorted(found.tree.keys() - wanted.tree.keys())]
    common = sorted(found.tree.keys() & wanted.tree.keys())
    parts += [f"other text in {path}" for path in common if found.tree[path] != wanted.tree[path]]
    missing, more = wanted.versions - found.versions, found.versions - wanted.versions
    parts += [f"no version {operation} {path}" for operation, path, _ in missing]
    parts += [f"extra version {operation} {path}" for operation, path, _ in more]
    return "; ".join(parts)


def _with(tree: Tree, texts: Tree, operation: str) -> Outcome:
    changed = {path: text for path, text in texts.items() if tree.get(path) != text}
    return Outcome(tree | changed, Counter((operation, path, digest(text)) for path, text in changed.items()))


def _delete(tree: Tree, path: str) -> Outcome:
    gone = below(tree, path)
    _refuse_if(not gone or path == "/memories")
    rest = {each: text for each, text in tree.items() if each not in gone}
    return Outcome(rest, Counter(("deleted", each, "") for each in gone))


def _rename(tree: Tree, old: str, new: str) -> Outcome:
    moved = below(tree, old)
    _refuse_if(not moved or old == "/memories" or _exists(tree, new) or new.startswith(old + "/"))
    there = {new + each.removeprefix(old): tree[each] for each in moved}
    rest = {each: text for each, text in tree.items() if each not in moved}
    return Outcome(rest | there, _with({}, there, "modified").versions)


def _replace(text: str, command: Command) -> str:
    old = str(command["old_str"])
    _refuse_if(not old or occurrences(text, old) != 1)
    return text.replace(old, str(command.get("new_str", "")))


def _insert(text: str, command: Command) -> str:
    lines = text.split("\n")
    lines = [line + "\n" for line in (lines[:-1] if lines[-1] == "" else lines)]
    at = int(str(command["insert_line"]))
    _refuse_if(not 0 <= at <= len(lines))
    new = str(command["insert_text"])
    lines.insert(at, new if new.endswith("\n") else new + "\n")
    return "".join(lines)


def _text(tree: Tree, path: str) -> str:
    _refuse_if(path not in tree)
    return tree[path]


def _exists(tree: Tree, path: str) -> bool:
    parts = path.split("/")
    above = ("/".join(parts[:n]) for n in range(3, len(parts)))
    return path == "/memories" or bool(below(tree, path)) or any(each in tree for each in above)


def _refuse_if(refused: bool) -> None:
    if refused:
        raise RefusedError
