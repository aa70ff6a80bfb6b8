"""Log of a project: a memory with the newest sessions, dated files with older sessions, and an index of these files.

Each memory stays within the size limit of the store. A session that is larger than the limit is split into several
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retentive.agent.project_files import ProjectFiles
from retentive.frozen import dataclass

ENTRY = "## Session "
INDEX = "sessions/index.md"
KEPT_SESSIONS = 40  # about 500 bytes each, well below the size limit
_FOLDER = "sessions"
_UNLIMITED = 1 << 62
_INDEX_HEAD = "# Files of earlier sessions, newest first\n"
_MORE = "- older files are not listed\n"


@dataclass(frozen=True, slots=True)
class LogPlan:
    """Plan for fitting a new session into the log.

    `share` is the usable fraction of the size limit. Guards may lengthen the text, and a fraction below 1 leaves room
    for that. If `rolls_over` is True, older sessions move to files. Otherwise they are dropped from the log. If
    `shrinks` is True, enough sessions are dropped to make the log smaller than before. Every limit allows a smaller
    log.
    """

    share: float = 1.0
    rolls_over: bool = True
    shrinks: bool = False


PLANS = (LogPlan(), LogPlan(0.5), LogPlan(0.2), LogPlan(rolls_over=False), LogPlan(rolls_over=False, shrinks=True))
"""Plans to try in this order, each in its own transaction."""


def split_log(log: str) -> tuple[str, list[str]]:
    """Split the log into the text before the sessions, and the text of each session, newest first."""
    head, *entries = f"\n{log}".split(f"\n{ENTRY}")
    return head[1:], [f"{ENTRY}{entry.rstrip()}\n\n" for entry in entries]


def add_entry(files: ProjectFiles, name: str, entry: str, day: str, plan: LogPlan) -> None:
    """Add the session `entry` to the log `name` as `plan` says. Raises `Refused` if a limit of the store forbids it."""
    log = files.read(name) or ""
    head, old = split_log(log)
    entries = [entry, *old]
    room = int((files.max_bytes or _UNLIMITED) * plan.share)
    kept = _fitting(head, entries, room, KEPT_SESSIONS)
    if len(kept) < len(entries) and plan.rolls_over:
        kept = _fitting(head, entries, room // 2, KEPT_SESSIONS // 2)  # leaves room for the next sessions
        _archive(files, entries[len(kept) :], room, day)
    elif plan.shrinks:
        kept = _fitting(head, entries, min(room, _size(log) - 1), KEPT_SESSIONS)
    if not plan.rolls_over and not kept:
        kept = [entry]  # the session is too large, so the guard will refuse it
    if kept or old:
        files.put(name, _joined(head, kept))


def indexed(index: str) -> list[str]:
    """Return the names of the files in the index, newest first."""
    lines = (line for line in index.splitlines() if line.startswith("- ") and ".md: " in line)
    return [f"{_FOLDER}/{line[2:].split(': ')[0]}" for line in lines]


def _fitting(head: str, entries: Sequence[str], room: int, most: int) -> list[str]:
    """Return the newest sessions that fit into a log of `room` bytes, but not more than `most` sessions."""
    left, kept = room - _size(_joined(head, [])) - 1, []
    for entry in entries[:most]:
        left -= _size(entry)
        if left < 0:
            break
        kept.append(entry)
    return kept


def _joined(head: str, entries: Sequence[str]) -> str:
    return "\n\n".join(part for part in (head.rstrip(), "".join(entries).rstrip()) if part) + "\n"


def _archive(files: ProjectFiles, entries: Sequence[str], room: int, day: str) -> None:
    """Write sessions to new files named after `day`, and add the files to the index.

    The newest session is first in `entries`.
    """
    head = "# Earlier sessions, newest first\n"
    rest = [part for entry in entries for part in _parts(entry, room - _size(head) - 1)]
    chunks = []
    while rest:
        chunk = _fitting(head, rest, room, len(rest)) or rest[:1]
        chunks.append(chunk)
        rest = rest[len(chunk) :]
    lines: list[str] = []
    number = 0
    for chunk in reversed(chunks):
        number, name = _free_name(files, day, number + 1)
        files.put(f"{_FOLDER}/{name}", _joined(head, chunk))
        newest, oldest = (each.splitlines()[0].removeprefix(f"{ENTRY}of ") for each in (chunk[0], chunk[-1]))
        lines.insert(0, f"- {name}: {len(chunk)} sessions, from {oldest} to {newest}\n")
    known = (files.read(INDEX) or "").splitlines(keepends=True)
    files.put(INDEX, _index([*lines, *(line for line in known if line.startswith("- ") and line != _MORE)], room))


def _index(lines: Sequence[str], room: int) -> str:
    """Build the index. If it would be too long, its oldest lines are left out."""
    kept = _fitting(_INDEX_HEAD + _MORE, lines, room, len(lines))
    return "".join([_INDEX_HEAD, *kept, *([_MORE] if len(kept) < len(lines) else [])])


def _free_name(files: ProjectFiles, day: str, number: int) -> tuple[int, str]:
    """Return the first unused file name for the day, and its number. Numbers start at `number`."""
    while files.exists(f"{_FOLDER}/{(name := f'{day}.md' if number == 1 else f'{day}-{number}.md')}"):
        number += 1
    return number, name


def _parts(entry: str, room: int) -> Iterator[str]:
    """Yield a session. If it is larger than `room` bytes, yield it in several parts."""
    if _size(entry) <= room:
        yield entry
        return
    title, _, text = entry.rstrip().partition("\n")
    data, size = text.encode(), max(room - _size(title) - 40, 1)
    pieces = []
    while data:
        end = min(size, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:  # do not split a character
            end -= 1
        pieces.append(data[: end or size].decode(errors="replace"))
        data = data[end or size :]
    for number, piece in enumerate(pieces, 1):
        yield f"{title}, part {number} of {len(pieces)}\n{piece}\n\n"


def _size(text: str) -> int:
    return len(text.encode())
