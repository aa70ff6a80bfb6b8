"""Diffs of the changes that a conversation made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from retentive.storage.contract import Version
from retentive.store import MemoryStore
from retentive.values.diff import NOWHERE, DiffLine, unified


def diffs(store: MemoryStore, changes: Sequence[Version]) -> Iterator[DiffLine]:
    """Yield the diffs of the versions in `changes`, grouped by memory.

    Consecutive versions of a memory are combined into one diff.
    """
    chosen = {version.id for version in changes}
    for memory_id in dict.fromkeys(version.memory_id for version in reversed(changes)):
        before: Version | None = None
        versions = reversed(store.history.log(memory_id=memory_id))
        for is_chosen, group in groupby(versions, key=lambda version: version.id in chosen):
            *_, last = group
            if is_chosen:
                yield from _diff(store, before, last)
            before = last


def _diff(store: MemoryStore, old: Version | None, new: Version) -> Iterator[DiffLine]:
    (old_path, old_text), (new_path, new_text) = _shown(store, old), _shown(store, new)
    if old_path != new_path and old_path and new_path:
        yield DiffLine("header", f"rename from {old_path}")
        yield DiffLine("header", f"rename to {new_path}")
    rows = unified(old_text, new_text, old_name=f"a{old_path}", new_name=f"b{new_path}")
    if not rows and (old_text is None) != (new_text is None):  # the memory is empty, so it has no rows
        sides = f"--- {f'a{old_path}' if old_path else NOWHERE}", f"+++ {f'b{new_path}' if new_path else NOWHERE}"
        rows = [DiffLine("header", side) for side in sides]
    yield from rows


def _shown(store: MemoryStore, version: Version | None) -> tuple[str, str | None]:
    """Return the path and text of a version. The text of a redacted version is None.

    For a deletion, or if `version` is None, returns "" and None.
    """
    if version is None or version.operation == "deleted":
        return "", None
    found, text = store.history.show(version.id)
    return found.path, text
