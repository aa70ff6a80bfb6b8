"""Notes of a memory store in object storage. Pure but for loading: what must be written goes out as bytes.

The latest stand in the root. When they are many, those of the kind that has most become a *segment*, an object of its
own; when there are several of these, they are merged into *pages*, which divide all keys among them. The root knows of
each segment which keys it may have, so that looking for one that is not there costs no request for segments, and one
for a page at most. A long value is an object of its own at once.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from retentive.storage.objects.compaction import evenly
from retentive.storage.objects.manifest import Notes, Segment
from retentive.storage.objects.records import Note, PageRef, encode_notes, name_for

LONG_CHARS = 1_024  # a longer value is an object of its own
_NOTE_CHARS = 40  # what a note weighs besides key and value
_MARK_BYTES, _MARK_CHARS = 3, 4  # of 500 keys, one in 30,000 looks like another

Load = Callable[[Sequence[str]], Sequence[Mapping[str, Note]]]
"""Reads objects with notes, several at once."""


@dataclass(frozen=True, slots=True)
class NoteSizes:
    """How many notes stand in the root, in a segment and in a page."""

    recent: int = 64
    recent_chars: int = 8_192
    segments: int = 8
    segment: int = 256
    page: int = 256


@dataclass(slots=True)
class Settled:
    """Notes after some went out of the root: objects to be written, and those that nothing names any more.

    Of these, `dropped` are with notes, `dropped_values` with one long value each.
    """

    notes: dict[str, Notes]
    objects: dict[str, bytes] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    dropped_values: set[str] = field(default_factory=set)


def find_note(notes: Notes, key: str, load: Load) -> Note | None:
    """The note with a key, which may say that it was removed."""
    if key in notes.recent:
        return notes.recent[key]
    mark = _mark(key)
    for segment in reversed(notes.segments):
        if mark in _marks(segment):
            found = load([segment.name])[0].get(key)
            if found is not None:
                return found
    at = bisect_right(notes.pages, key, key=_first) - 1
    return None if at < 0 else load([notes.pages[at].name])[0].get(key)


def all_notes(notes: Notes, load: Load) -> list[Note]:
    """All that are there, in the order of their keys."""
    found: dict[str, Note] = {}
    for part in load([*(ref.name for ref in notes.pages), *(segment.name for segment in notes.segments)]):
        found.update(part)
    found.update(notes.recent)
    return [found[key] for key in sorted(found) if not found[key].is_removed]


def with_note(every: Mapping[str, Notes], kind: str, note: Note) -> dict[str, Notes]:
    """All notes with one more, or one fewer."""
    notes = every.get(kind, Notes())
    recent = {key: one for key, one in notes.recent.items() if key != note.key}
    if not note.is_removed or notes.segments or notes.pages:
        recent[note.key] = note
    changed = {**every, kind: replace(notes, recent=recent)}
    if not (recent or notes.segments or notes.pages):
        del changed[kind]
    return changed


def settle(every: Mapping[str, Notes], sizes: NoteSizes, load: Load) -> Settled:
    """The same notes with few of them in the root."""
    settled = Settled(dict(every))
    while _is_much(settled.notes.values(), sizes):
        kind = max(settled.notes, key=lambda one: _weight(settled.notes[one]))
        notes = settled.notes[kind]
        if len(notes.recent) <= sizes.segment and len(notes.segments) < sizes.segments:
            settled.notes[kind] = _with_segment(notes, settled)
        else:
            _merge(kind, settled, sizes, load)
    return settled


def merge_all(every: Mapping[str, Notes], sizes: NoteSizes, load: Load) -> Settled:
    """The same notes with nothing of those that were replaced or removed."""
    settled = Settled(dict(every))
    for kind, notes in every.items():
        if has_overlay(notes):
            _merge(kind, settled, sizes, load)
    return settled


def has_overlay(notes: Notes) -> bool:
    """Whether objects with notes of a kind may hold some that were replaced or removed since."""
    return bool(notes.segments or (notes.pages and notes.recent))


def names_in(notes: Notes) -> list[str]:
    """The objects with notes of a kind, but for those with long values."""
    return [*(segment.name for segment in notes.segments), *(ref.name for ref in notes.pages)]


def _is_much(every: Iterable[Notes], sizes: NoteSizes) -> bool:
    found = list(every)
    return sum(len(notes.recent) for notes in found) > sizes.recent or sum(map(_weight, found)) > sizes.recent_chars


def _weight(notes: Notes) -> int:
    return sum(len(note.key) + len(note.value or "") + _NOTE_CHARS for note in notes.recent.values())


def _with_segment(notes: Notes, settled: Settled) -> Notes:
    data = encode_notes(list(notes.recent.values()))
    name = name_for(data)
    settled.objects[name] = data
    segment = Segment(name, "".join(map(_mark, notes.recent)))
    return replace(notes, recent={}, segments=(*notes.segments, segment))


def _merge(kind: str, settled: Settled, sizes: NoteSizes, load: Load) -> None:
    """Merge all of a kind into pages; those that no key falls into stay as they are."""
    notes = settled.notes[kind]
    overlay: dict[str, Note] = {}
    parts = list(load([segment.name for segment in notes.segments]))
    for part in [*parts, notes.recent]:
        overlay.update(part)
    touched = sorted({max(bisect_right(notes.pages, key, key=_first) - 1, 0) for key in overlay})
    if notes.pages:
        loaded = dict(zip(touched, load([notes.pages[at].name for at in touched]), strict=True))
        settled.dropped.update(notes.pages[at].name for at in touched)
    else:
        loaded = {}
    pages: list[PageRef] = []
    for run in _runs(len(notes.pages), touched):
        if run[0] not in touched:
            pages += notes.pages[run[0] : run[-1] + 1]
            continue
        merged = {key: note for at in run for key, note in loaded.get(at, {}).items()}
        merged.update(_between(overlay, notes.pages, run))
        kept = [merged[key] for key in sorted(merged) if not merged[key].is_removed]
        pages += _pages(kept, sizes, settled)
    settled.dropped.update(segment.name for segment in notes.segments)
    before = [note for part in [*parts, *loaded.values()] for note in part.values()]
    settled.dropped_values |= _held(before) - _held([*overlay.values(), *_unless(loaded.values(), overlay)])
    settled.notes[kind] = Notes(pages=tuple(pages))
    if not pages:
        del settled.notes[kind]


def _runs(count: int, touched: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of pages, those that belong together in one list: consecutive ones, all touched or none."""
    run = [0]
    marked = set(touched)
    for before, at in pairwise(range(max(count, 1))):
        if (at in marked) != (before in marked):
            yield run
            run = []
        run.append(at)
    yield run


def _between(overlay: Mapping[str, Note], pages: Sequence[PageRef], run: Sequence[int]) -> dict[str, Note]:
    """The notes that fall into a run of pages. What comes before the first page falls into that."""
    low = pages[run[0]].first if run[0] > 0 else ""
    high = pages[run[-1] + 1].first if run[-1] + 1 < len(pages) else None
    return {key: note for key, note in overlay.items() if low <= key and (high is None or key < high)}


def _pages(kept: Sequence[Note], sizes: NoteSizes, settled: Settled) -> Iterator[PageRef]:
    for part in evenly(kept, sizes.page):
        data = encode_notes(part)
        name = name_for(data)
        settled.objects[name] = data
        yield PageRef(part[0].key, name, len(part))


def _unless(parts: Iterable[Mapping[str, Note]], overlay: Mapping[str, Note]) -> list[Note]:
    return [note for part in parts for key, note in part.items() if key not in overlay]


def _held(notes: Iterable[Note]) -> set[str]:
    return {note.held_in for note in notes if note.held_in is not None}


def _first(ref: PageRef) -> str:
    return ref.first


def _mark(key: str) -> str:
    return b64encode(hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=_MARK_BYTES).digest()).decode()


def _marks(segment: Segment) -> set[str]:
    marks = segment.marks
    return {marks[at : at + _MARK_CHARS] for at in range(0, len(marks), _MARK_CHARS)}
