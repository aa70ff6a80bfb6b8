r"""Citations: where a memory comes from, and whether the cited text is still there.

A citation is a marker in a line of a memory: `[source: src/app.py#L10-L14 sha256:9f86d0818 @3f2a1b9]`. The hash is that
of the cited lines, without `\r` at their ends, joined with `\n`. A citation of a memory is compared with the text
at each read. For a citation of a file, the outcome of the last verification counts, which only a verification writes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import unquote

from retentive.engine.operation import Plan, Read, Write
from retentive.engine.visibility import Filtered, scope_of
from retentive.errors import InvalidInput, NotFound, PermissionDenied, Phrase, Refused
from retentive.storage.contract import Clock, Entry, Memory, Snapshot, Version, now_us, to_datetime
from retentive.storage.lookup import locate
from retentive.storage.paging import readable_texts
from retentive.values.listing import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.patterns import covers
from retentive.values.text import count_lines, insert

if TYPE_CHECKING:
    from retentive.engine.guard import Guard

Freshness: TypeAlias = Literal["fresh", "unverified", "drifted", "orphaned"]
STATES: tuple[Freshness, ...] = get_args(Freshness)  # by concern
STALE: tuple[Freshness, ...] = ("drifted", "orphaned")
MARK = b"[source: "  # in each text with citations
FRESHNESS = "freshness"  # kind of the records of verifications; the key is the id of a memory
MAX_VERIFIED = 1_000  # citations in one verification
MAX_CITATIONS = 100  # citations of a memory that count; later ones are ordinary text
_MAX_NAMED, _MAX_PATH = 5, 1_000
_TELLING = 8  # a text with fewer characters, blanks not counted, may stand in another place by chance
_BUDGET, _WINDOW_COST = 2_000_000, 256  # bytes to hash in the search for a cited text, and what each place adds
_SOURCE = (
    r"(?P<path>(?:[^\s#\[\]]++|\[[^\s#\[\]]*+\])++)(?:#L(?P<first>[1-9]\d{0,6})(?:-L?(?P<last>[1-9]\d{0,6}))?)?"
    r"(?: sha256:(?P<sha256>[0-9a-f]{8,64}))?(?: @(?P<commit>[0-9a-f]{7,64}))?"
)
_PLAIN = re.compile(_SOURCE, re.ASCII)
_MARKER = re.compile(rf"\[source: {_SOURCE}\](?!\()", re.ASCII)
_FRONT_MATTER = re.compile(r"---\r?\n(?:(?!---).*\n)*---\r?(?:\n|\Z)")
_VERIFIED = re.compile(r"^verified_at: *[\"']?(\d{4}-\d\d-\d\d)", re.ASCII | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CitedPlace:
    """What is cited: a file or a memory, or its lines `first` to `last`, counted from 1 (both 0: all of it).

    `path` is quoted as in URLs: `%20` is a blank. `sha256` and `commit` are the first digits, and may be empty.
    """

    path: str
    first: int = 0
    last: int = 0
    sha256: str = ""
    commit: str = ""

    @classmethod
    def of(cls, found: re.Match[str] | None) -> CitedPlace | None:
        """Return the source that a pattern found. None for a URL, a long path, or a last line before the first."""
        if found is None or "://" in found["path"] or len(found["path"]) > _MAX_PATH:
            return None
        first, last = int(found["first"] or 0), int(found["last"] or found["first"] or 0)
        return cls(found["path"], first, last, found["sha256"] or "", found["commit"] or "") if last >= first else None

    @classmethod
    def parse(cls, text: object) -> CitedPlace:
        """Parse a source, such as `src/app.py#L10-L14`, in which blanks need not be quoted. Raises `InvalidInput`."""
        given = text if isinstance(text, str) else ""
        source = cls.of(_PLAIN.fullmatch(given) or _PLAIN.fullmatch(re.sub(r"\s", "%20", given)))
        if source is None or source.memory_path == "":
            raise InvalidInput("a source must be a path in a working copy or of a memory, such as src/app.py#L10-L14")
        return source

    def __str__(self) -> str:
        marks = [f" sha256:{self.sha256[:16]}"] if self.sha256 else []
        return "".join([self.place, *marks, *([f" @{self.commit[:12]}"] if self.commit else [])])

    @property
    def place(self) -> str:
        """Path and lines."""
        last = f"-L{self.last}" if self.last > self.first else ""
        return f"{self.path}#L{self.first}{last}" if self.first else self.path

    @property
    def memory_path(self) -> str | None:
        """Canonical path of the cited memory. None if a file is cited; empty if no memory can have this path."""
        if not self.path.startswith(f"{ROOT}/"):
            return None
        try:
            return MemoryPath.parse(unquote(self.path)).text
        except Refused:
            return ""


class Checked(NamedTuple):
    """Outcome of a check at a time in microseconds. `sha256` is the hash to compare with, as far as it is known."""

    state: Freshness = "unverified"
    sha256: str = ""
    commit: str = ""
    at_us: int = 0


@dataclass(frozen=True, slots=True)
class Citation:
    """Citation of a memory, and its state.

    `line` is 0 if the citation is about the whole memory. `sha256` is that of the citation, or else of its first
    verification. `commit` and `verified_at` are those of the last verification, whatever it found, or else those in the
    memory. `moved_to` is the new path of a cited memory that was renamed.
    """

    path: str
    memory_id: str
    line: int
    source: str
    state: Freshness
    sha256: str = ""
    commit: str = ""
    verified_at: datetime | None = None
    moved_to: str = ""

    @property
    def is_of_memory(self) -> bool:
        """Whether a memory is cited, not a file."""
        return self.source.startswith(f"{ROOT}/")


def citations_in(text: str) -> list[tuple[int, CitedPlace]]:
    """Return the citations of a text, each with the number of its line (0: it is about the whole memory)."""
    found, matter = list[tuple[int, CitedPlace]](), _FRONT_MATTER.match(text)
    first = matter[0].count("\n") + 1 if matter else 1  # line after the front matter
    for number, row in enumerate(text.split("\n"), 1):
        for match in _MARKER.finditer(row):
            source, line = CitedPlace.of(match), 0 if number < first or row.strip() == match[0] else number
            if source and ({"/", "."} & {*source.path} or source.first or source.sha256):  # a word may mean anything
                found.append((line, source))
    return found[:MAX_CITATIONS]


def said_verified(text: str) -> datetime | None:
    """Return the date `verified_at` of front matter, which the author of a text wrote."""
    with suppress(ValueError):
        matter = _FRONT_MATTER.match(text)
        found = matter and _VERIFIED.search(matter[0])
        return found and datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    return None


def with_citation(text: str, source: CitedPlace, line: int | None) -> str:
    """Return a text that cites `source` in a line, or, if `line` is None, on a line of its own at the end.

    It replaces the citations of the same file or memory there. Raises `InvalidInput` if there is no such line.
    """
    rows, marker = text.split("\n"), f"[source: {source}]"
    if line is None:
        whole = ((row, _MARKER.fullmatch(row.strip())) for row in rows)
        kept = "\n".join(row for row, found in whole if found is None or found["path"] != source.path)
        return insert(kept, count_lines(kept), marker)
    if not 1 <= line <= count_lines(text):
        raise InvalidInput(f"the memory has no line {line}")
    row = _MARKER.sub(lambda found: "" if found["path"] == source.path else found[0], rows[line - 1])
    rows[line - 1] = f"{row.rstrip()} {marker}" + ("\r" if row.endswith("\r") else "")
    return "\n".join(rows)


def rows_of(data: bytes) -> list[bytes]:
    r"""Return the lines of a text or file without their ends (`\n` or `\r\n`), and without a byte order mark."""
    rows = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")
    return rows if rows != [b""] else []


def cited_rows(rows: Sequence[bytes], source: CitedPlace) -> Sequence[bytes] | None:
    """Return the cited lines. None if there are fewer lines."""
    return rows[max(source.first - 1, 0) : source.last or None] if source.last <= len(rows) else None


def hash_of(rows: Sequence[bytes]) -> str:
    """Return the hash of lines."""
    return hashlib.sha256(b"\n".join(rows)).hexdigest()


def hashed(source: CitedPlace, rows: Sequence[bytes] | None) -> CitedPlace:
    """Return a source with the hash of the cited lines. Raises `NotFound` if they do not exist."""
    own = None if rows is None else cited_rows(rows, source)
    if own is None:
        if rows is None:
            raise NotFound(f"there is no {source.path} in the working copy; name lines as in src/app.py#L10-L14")
        raise NotFound(f"there is no {source.place}; {source.path} has {len(rows):,} lines")
    return replace(source, sha256=hash_of(own))


def compared(
    rows: Sequence[bytes] | None, source: CitedPlace, sha256: str, budget: int = _BUDGET
) -> tuple[Freshness, str]:
    """Return the state of a citation of a text (None: there is none), and the hash to remember.

    `sha256` is the hash of the citation, if it is known. The cited lines may stand anywhere in the text: other places
    are tried, the nearest first, until `budget` bytes were hashed.
    """
    own = None if rows is None else cited_rows(rows, source)
    if rows is None or (own is None and not sha256):
        return "drifted" if rows is not None else "orphaned", sha256
    if own is not None and hash_of(own).startswith(sha256):
        return "fresh", sha256 or hash_of(own)
    count = source.last - source.first + 1 if source.first else len(rows)
    end = len(rows) - count
    first = min(source.first - 1, end)
    for start in chain.from_iterable((first - by, first + by) for by in range(end + 1)):
        if budget <= 0:
            break
        if 0 <= start <= end:
            window = rows[start : start + count]
            budget -= sum(map(len, window)) + _WINDOW_COST
            if hash_of(window).startswith(sha256):
                return "fresh" if len(b"".join(b"".join(window).split())) >= _TELLING else "drifted", sha256
    return "drifted", sha256


def checks_in(text: str | None) -> dict[str, Checked]:
    """Parse the record of a memory. Empty for a damaged record, which is as good as no verification."""
    try:
        return {} if text is None else {source: Checked(*each) for source, each in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def citations_of(view: Snapshot, memory: Memory, data: bytes | None, *, pins: bool = False) -> list[Citation]:
    """Return the citations in a text of a memory with their states, in the order of the lines.

    With `pins`, a memory that is cited without a hash gets its present one. A cited memory outside of the paths of the
    caller is unverified, whether it exists or not.
    """
    if not data or MARK not in data:
        return []
    text = data.decode("utf-8", "replace")
    cited, said, found = citations_in(text), said_verified(text), list[Citation]()
    known = checks_in(view.get_record(FRESHNESS, memory.id))
    rows_at = cache(partial(_rows_at, view))
    for line, source in cited:
        state, sha256, commit, at_us = known.get(str(source), Checked())
        sha256, moved_to = source.sha256 or sha256, ""
        if (path := source.memory_path) is not None:
            rows, is_readable = rows_at(path)
            sha256 = sha256 if rows is not None else source.sha256  # a recorded one tells about a hidden memory
            is_open = not is_readable or (rows is not None and not (sha256 or pins))
            budget = _BUDGET // len(cited)
            state, sha256 = ("unverified", sha256) if is_open else compared(rows, source, sha256, budget)
            moved_to = _moved_to(view, path) if state == "orphaned" else ""
        about = sha256, commit or source.commit, to_datetime(at_us) if at_us else said, moved_to
        found.append(Citation(memory.path, memory.id, line, str(source), state, *about))
    return found


def _rows_at(view: Snapshot, path: str) -> tuple[Sequence[bytes] | None, bool]:
    """Return the lines of a memory, or None, and whether they can be compared: not if damaged, or out of scope."""
    if (scope := scope_of(view)) and not covers(scope, path):
        return None, False
    entry = locate(view, path) if path else Entry()
    return (None, True) if entry.memory is None else (rows_of(entry.data or b""), entry.data is not None)


def _moved_to(view: Snapshot, path: str) -> str:
    last = next(view.versions(path=path, limit=1), None) if path else None
    memory = None if last is None else view.find(last.memory_id)
    return "" if memory is None else memory.path


def notes_on(citations: Sequence[Citation]) -> list[Phrase]:
    """Return the notes of a view: at most five stale citations, and how many others there are."""
    stale, notes = [each for each in citations if each.state in STALE], list[Phrase]()
    for each in stale[:_MAX_NAMED]:
        found = f", found on {each.verified_at:%Y-%m-%d}" if each.verified_at and not each.is_of_memory else ""
        moved = Phrase("cited_text_moved", {"path": each.moved_to}) if each.moved_to else ""
        where = f"Line {each.line}" if each.line else "This memory"
        notes.append(
            Phrase(each.state, {"where": where, "source": each.source.split(" ")[0], "found": found, "moved": moved})
        )
    fresh = [each for each in citations if each.state == "fresh"]
    times = [each.verified_at for each in fresh if each.verified_at is not None]
    since = f", last verified on {min(times):%Y-%m-%d}" if times else ""
    others = len(citations) - len(stale) - len(fresh)
    counts = {"more_stale": len(stale) - _MAX_NAMED, "unverified": others, "fresh": len(fresh)}
    return notes + [Phrase(key, {"count": count, "since": since}) for key, count in counts.items() if count > 0]


def list_citations(
    under: MemoryPath, states: Sequence[Freshness], *, after: str = "", limit: int | None = None
) -> Read[ListPage[Citation, str]]:
    """List citations, as `Citing.citations` does. `after` is the `next` of the previous page."""
    done, _, start = after.partition(" ")  # number of listed citations of a memory, and its path

    def work(view: Snapshot) -> ListPage[Citation, str]:
        found, own = list[Citation](), Entry() if under.is_root else locate(view, under.text)
        memories = readable_texts(view, under.text, start)
        for memory, data in memories if own.memory is None else [(own.memory, own.data)]:
            left = [each for each in citations_of(view, memory, data) if not states or each.state in states]
            skipped = int(done) if memory.path == start else 0
            end = len(left) if limit is None else skipped + limit - len(found)
            found += left[skipped:end]
            if end < len(left):
                return ListPage(tuple(found), f"{end} {memory.path}")
        return ListPage(tuple(found))

    return Read("citations", work, under, needs_external_edits=True)


def verify(checked: Sequence[Citation], clock: Clock) -> Write[list[Citation]]:
    """Record the verification of citations, and return them. Those of memories are compared here."""

    def work(view: Snapshot, guard: Guard) -> Plan[list[Citation]]:
        guard.check_opened("verifications")
        found, records, at_us = list[Citation](), list[tuple[str, str, str | None]](), now_us(clock)
        given = {(each.memory_id, each.source): each for each in checked}
        if guard.hidden is not None:
            view = Filtered(view, guard.hidden.shows, history=False, scope=scope_of(view))
        for memory in filter(None, map(view.find, dict.fromkeys(each.memory_id for each in checked))):
            if not guard.reaches(memory.path):
                raise PermissionDenied(f"this actor may not change {memory.path}, so it cannot verify its citations")
            known, kept = checks_in(view.get_record(FRESHNESS, memory.id)), dict[str, Checked]()
            for each in citations_of(view, memory, locate(view, memory.path).data, pins=True):
                of, now = each.source, given.get((memory.id, each.source))
                if now is not None and not (each.is_of_memory and each.state == "unverified"):
                    seen, old = each if each.is_of_memory else now, known.get(of, Checked())
                    sha256 = each.sha256 or seen.sha256
                    kept[of] = Checked(seen.state, sha256 or old.sha256, seen.commit, at_us)
                    at = to_datetime(at_us)
                    found.append(replace(each, state=seen.state, sha256=sha256, commit=seen.commit, verified_at=at))
                elif of in known:
                    kept[of] = known[of]
            records.append((FRESHNESS, memory.id, json.dumps(kept) if kept else None))
        return Plan(found, records=records)

    return Write("verify", work, needs_external_edits=True, for_paths=True)


def forget_checks(view: Snapshot, versions: Sequence[Version]) -> list[tuple[str, str, str | None]]:
    """Return the changes of records that remove what verifications kept of removed versions.

    That are the hashes of their lines, and the sources that are no longer in the text that cited them.
    """
    changes = list[tuple[str, str, str | None]]()
    paths, ids = {version.path for version in versions}, {version.memory_id for version in versions}
    for memory_id, text in view.records(FRESHNESS):
        known, memory = checks_in(text), view.find(memory_id) if memory_id in ids else None
        data = b"" if memory is None else locate(view, memory.path).data or b""
        present = {str(source) for _, source in citations_in(data.decode("utf-8", "replace"))}
        kept = {of: check for of, check in known.items() if memory_id not in ids or of in present}
        for of in [*kept]:
            source = CitedPlace.of(_PLAIN.fullmatch(of))
            if source is None or source.memory_path in paths:
                del kept[of]
        if kept != known:
            changes.append((FRESHNESS, memory_id, json.dumps(kept) if kept else None))
    return changes
