"""What a view replies: a memory's lines, or the rows of a directory, put into words."""

from __future__ import annotations

from collections.abc import Sequence

from commonplace.backends.base import Look
from commonplace.commands import View
from commonplace.errors import Damaged
from commonplace.listing import listing
from commonplace.paths import MemoryPath
from commonplace.replies import Replies, Reply
from commonplace.settings import Settings
from commonplace.text import LineCounts, view


def memory(command: View, look: Look, settings: Settings, replies: Replies, counts: LineCounts) -> Reply:
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


def directory(path: MemoryPath, sizes: Sequence[tuple[str, int]], settings: Settings, replies: Replies) -> Reply:
    """Two levels of what is below, from the paths and sizes of all memories there."""
    shown = listing(path.text, sizes, max_rows=settings.list_rows)
    lines = [replies.phrase("directory_header", {"path": path.text}), *shown.rows]
    if len(shown.rows) - 1 < shown.total:
        values = {"shown": len(shown.rows) - 1, "total": shown.total}
        lines.append(replies.phrase("rows_cut", values))
    return Reply("\n".join(lines))
