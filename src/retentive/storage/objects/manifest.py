"""What a memory store is in object storage, as values: no request is made here.

One small *root* object per memory store is replaced by compare-and-swap. It holds a *log* of the latest versions, names
the *pages* (immutable, some 250 memories each, as they were before the log began) and the *history* (immutable chunks
of versions older than the log). So most writes replace the root alone; the log is folded into pages and history now
and then (`objects_folding.py`). The latest notes are in the root too (`objects_notes.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from retentive.errors import Damaged
from retentive.storage.contract import StoreInfo, to_datetime
from retentive.storage.objects.records import Note, PageRef, Record, Ref, all_of, changes_of, pack, unpack

COMMITS_KEPT = 64  # by these a writer whose reply was lost finds out whether it was committed


class Segment(NamedTuple):
    """Some notes in an object; `marks` has four characters for each key."""

    name: str
    marks: str


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes of a kind: the latest, by their keys; older ones, the newest segment last; the oldest in pages."""

    recent: Mapping[str, Note] = field(default_factory=dict)
    segments: tuple[Segment, ...] = ()
    pages: tuple[PageRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Erased:
    """Since when a memory store is erased, and by whom."""

    at: int
    by: str | None


@dataclass(frozen=True, slots=True)
class Root:
    """One state of a memory store. `changed` says what the log did to the pages; None where a path was left.

    `pending` are objects that no state names any more, to be deleted. `strays` are memories that are not present though
    their newest version is no deletion, since it came blanked from elsewhere.
    """

    id: str
    key: str | None
    name: str
    created: int
    seal: str | None
    settings: str | None = None
    revision: int = 0
    memories: int = 0
    size_bytes: int = 0
    last_at: int = 0
    folds: int = 0
    commits: tuple[str, ...] = ()
    pages: tuple[PageRef, ...] = ()
    log: tuple[Record, ...] = ()
    history: tuple[tuple[Ref, ...], ...] = ()
    notes: Mapping[str, Notes] = field(default_factory=dict)
    pending: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    erased: Erased | None = None
    changed: Mapping[str, Record | None] = field(default_factory=dict, compare=False)

    def info(self) -> StoreInfo:
        """As the contract has it."""
        if self.erased is not None:
            gone = to_datetime(self.erased.at)
            return StoreInfo(self.id, None, "", to_datetime(self.created), 0, 0, erased_at=gone)
        return StoreInfo(
            self.id, self.key, self.name, to_datetime(self.created), self.memories, self.size_bytes, self.seal
        )

    def page_of(self, path: str) -> PageRef | None:
        """The page that has a path, if it is there."""
        at = bisect_right(self.pages, path, key=_first) - 1
        return self.pages[at] if at >= 0 else None

    def pages_between(self, low: str, high: str) -> Sequence[PageRef]:
        """The pages that may have paths strictly between two."""
        return self.pages[
            max(bisect_right(self.pages, low, key=_first) - 1, 0) : bisect_left(self.pages, high, key=_first)
        ]

    @property
    def newest(self) -> str:
        """The id of the newest version, empty if there is none."""
        if self.log:
            return self.log[-1].id
        return next((level[-1].last for level in self.history if level), "")

    def committed_as(self, commit: str) -> Root:
        """This state, to be written under the id of a commit."""
        return replace(self, commits=(*self.commits, commit)[-COMMITS_KEPT:])


def _first(ref: PageRef) -> str:
    return ref.first


# -- bytes ---------------------------------------------------------------------------------------------------


def encode_root(root: Root) -> bytes:
    """The bytes of a root."""
    return pack(
        "root",
        {
            "store": [root.id, root.key, root.name, root.created, root.seal, root.settings],
            "counts": [root.revision, root.memories, root.size_bytes, root.last_at, root.folds],
            "commits": root.commits,
            "pages": root.pages,
            "log": root.log,
            "history": root.history,
            "notes": {
                kind: [list(notes.recent.values()), notes.segments, notes.pages] for kind, notes in root.notes.items()
            },
            "pending": root.pending,
            "strays": root.strays,
            "erased": None if root.erased is None else [root.erased.at, root.erased.by],
        },
    )


def decode_root(data: bytes, store_id: str) -> Root:
    """The root in some bytes. Raises `Damaged`, `UnknownSchema`."""
    value = unpack("root", data)
    try:
        log = tuple(all_of(Record, value["log"]))
        store, key, name, created, seal, settings = value["store"]
        revision, memories, size_bytes, last_at, folds = value["counts"]
        root = Root(
            store,
            key,
            name,
            created,
            seal,
            settings,
            revision,
            memories,
            size_bytes,
            last_at,
            folds,
            commits=tuple(value["commits"]),
            pages=tuple(all_of(PageRef, value["pages"])),
            log=log,
            history=tuple(tuple(all_of(Ref, level)) for level in value["history"]),
            notes={kind: _decode_notes(*parts) for kind, parts in value["notes"].items()},
            pending=tuple(value["pending"]),
            strays=tuple(value["strays"]),
            erased=None if value["erased"] is None else Erased(*value["erased"]),
            changed=changes_of(log),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("the root of a memory store cannot be read") from None
    if root.id != store_id:
        raise Damaged("the root of a memory store is that of another")
    return root


def _decode_notes(recent: list[Any], segments: list[Any], pages: list[Any]) -> Notes:
    latest = {note.key: note for note in all_of(Note, recent)}
    return Notes(latest, tuple(all_of(Segment, segments)), tuple(all_of(PageRef, pages)))
