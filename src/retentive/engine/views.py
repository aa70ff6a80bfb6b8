"""What a view replies: a memory's lines, or the rows of a directory, put into words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from retentive.errors import Damaged, Refused
from retentive.storage.contract import Entry, Snapshot
from retentive.values.commands import View
from retentive.values.listing import listing
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import Replies, Reply
from retentive.values.settings import Settings
from retentive.values.text import LineCounts, view

Sizes: TypeAlias = Sequence[tuple[str, int]]
"""Canonical paths and sizes in bytes of memories, in the byte order of the paths."""


def found(snapshot: Snapshot, path: MemoryPath) -> Entry | Sizes:
    """What there is to show: a memory, or all that lies below a directory. Raises `Refused`."""
    if path.is_root:
        return list(snapshot.sizes(ROOT))
    look = snapshot.get(path.text)
    if look.memory is not None:
        return look
    if look.below:
        return list(snapshot.sizes(path.text))
    raise Refused("view_missing")


def memory(command: View, look: Entry, settings: Settings, replies: Replies, counts: LineCounts) -> Reply:
    """The lines asked for. Raises `Refused`, `Damaged`."""
    data, version = look.data or b"", look.memory.version_id if look.memory else ""
    try:
        count = counts.count(version, data)
        page = view(data, command.view_range, max_chars=settings.view_chars, lines=count)
    except UnicodeDecodeError:
        raise Damaged("a stored text is not UTF-8") from None
    lines = [replies.phrase("file_header", {"path": command.path.written})]
    if page.numbered:
        lines.append(page.numbered)
    if page.notice is not None:
        lines.append(replies.phrase(page.notice.key, page.notice.values))
    return Reply("\n".join(lines))


def directory(path: MemoryPath, sizes: Sizes, settings: Settings, replies: Replies) -> Reply:
    """Two levels of what is below, from the paths and sizes of all memories there."""
    outer = path.outward(path.text)
    shown = listing(path.text, sizes, max_rows=settings.list_rows, shown=outer)
    lines = [replies.phrase("directory_header", {"path": outer}), *shown.rows]
    if len(shown.rows) - 1 < shown.total:
        values = {"shown": len(shown.rows) - 1, "total": shown.total}
        lines.append(replies.phrase("rows_cut", values))
    return Reply("\n".join(lines))
