"""Makes the API reference of the documentation site from docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

import retentive
from retentive import errors
from retentive.audit.reader import Audit
from retentive.errors import RetentiveError
from retentive.history.history import History
from retentive.review.session import Review
from retentive.review.trust import Trust

INTRODUCTION = """\
# API reference

Public names of the package `retentive`, from their docstrings. [The library](library.md) explains them.
`actor` is `Actor | str | None` everywhere. `**origin` means `source` and `session`. `**options` of the methods that
write means these two, `actor` and `if_version`.
"""
PARTS: dict[str, tuple[str, ...]] = {
    "Locations": ("open", "open_async", "Retentive", "AsyncRetentive"),
    "Memories": ("MemoryStore", "Mounts", "AsyncMemoryStore", "AsyncMounts"),
    "Values": ("Written", "Memory", "Version", "Usage", "StoreInfo", "Actor", "Reply"),
    "Tools": ("MemoryTool", "AsyncMemoryTool", "MemorySearchTool", "AsyncMemorySearchTool", "TOOL", "tool_result"),
}
REACHED = (History, Review, Trust, Audit)
"""Classes of the properties of a memory store."""
TWINS = {"AsyncRetentive": "Retentive", "AsyncMemoryStore": "MemoryStore", "AsyncMounts": "Mounts"}
_DEFAULT = re.compile(r"<(?:built-in )?(?:function|class) '?([\w.]+)'?[^>]*>")


def page() -> str:
    """Return the page."""
    lines = [INTRODUCTION]
    for part, names in PARTS.items():
        lines.append(f"## {part}\n")
        for name in names:
            lines += _entry(name, getattr(retentive, name))
    lines.append("## Properties of a memory store\n")
    for kind in REACHED:
        lines += _entry(kind.__name__, kind)
    lines += ["## Errors\n", "In `retentive.errors`. Each has a stable `code` and a flag `retryable`.\n", *_errors()]
    return "\n".join(lines)


def _entry(name: str, found: Any) -> Iterator[str]:
    yield f"### {name}\n"
    if name == "TOOL":
        yield "Entry for the `tools` list of a request.\n"
    elif name == "open_async":
        yield "`open` for `async with`; yields an `AsyncRetentive`.\n"
    elif inspect.isclass(found):
        yield from _class(name, found)
    else:
        yield f"```python\n{_signature(name, found)}\n```\n\n{inspect.getdoc(found)}\n"


def _class(name: str, found: type) -> Iterator[str]:
    yield f"{inspect.getdoc(found)}\n"
    if name in TWINS:
        own = [each for each in _public(found) if not hasattr(getattr(retentive, TWINS[name]), each)]
        yield f"Awaitable methods with the names, arguments and results of `{TWINS[name]}`.\n"
        yield from _members(found, own)
    elif dataclasses.is_dataclass(found):
        names = [spec.name for spec in dataclasses.fields(found) if spec.name not in {"seal", "provenance_text"}]
        yield f"Fields: {', '.join(f'`{each}`' for each in names)}.\n"
        yield from _members(found, [each for each in _public(found) if each not in set(_fields(found))])
    elif hasattr(found, "_fields"):  # a named tuple
        yield f"Fields: {', '.join(f'`{each}`' for each in found._fields)}.\n"
    else:
        yield from _members(found, _public(found))


def _fields(found: Any) -> list[str]:
    return [spec.name for spec in dataclasses.fields(found)]


def _public(found: type) -> list[str]:
    """Return the names of the public members that are defined in retentive, in the order of their definition."""
    kinds = [kind for kind in reversed(found.__mro__) if kind.__module__.startswith("retentive.")]
    names = dict.fromkeys(name for kind in kinds for name in vars(kind) if not name.startswith("_"))
    return [name for name in names if _is_documented(inspect.getattr_static(found, name))]


def _is_documented(member: object) -> bool:
    return isinstance(member, property | classmethod) or inspect.isfunction(member)


def _members(found: type, names: list[str]) -> Iterator[str]:
    for name in names:
        member = inspect.getattr_static(found, name)
        text = inspect.getdoc(getattr(found, name)) if not isinstance(member, property) else inspect.getdoc(member)
        title = name if isinstance(member, property) else _signature(name, getattr(found, name))
        yield f"`{title}`\n\n> {(text or '').replace(chr(10), chr(10) + '> ').replace('> ' + chr(10), '>' + chr(10))}\n"


def _signature(name: str, function: Any) -> str:
    """Return the parameters with their defaults. Annotations are left out."""
    given = inspect.signature(function).parameters.values()
    parameters = [each.replace(annotation=each.empty) for each in given if each.name != "self"]
    return name + _DEFAULT.sub("...", str(inspect.Signature(parameters)))


def _errors() -> Iterator[str]:
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, RetentiveError)]
    rows = [
        f"| `{kind.__name__}` | `{kind.code}` | {(inspect.getdoc(kind) or '').split(chr(10))[0]} |"
        for kind in kinds
        if kind is not errors.Refused
    ]
    yield "\n".join(["| class | code | |", "| --- | --- | --- |", *rows]) + "\n"
