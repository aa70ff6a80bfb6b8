"""Packing of a memory store: compresses superseded texts, so that history costs little. See `storage.packs`.

A sweep packs what was superseded since the sweep before. An open location also packs a memory as soon as it has made
`SOON` edits of it. Each piece is a transaction of its own, with some 1 MB of texts, so that writers wait under 50 ms.
"""

from __future__ import annotations

from collections.abc import Iterator

from retentive.engine.core import StoreCore
from retentive.storage.contract import Snapshot, Transaction
from retentive.storage.packs import FULL_BYTES

SOON = 32
PACKED, UNTIL = "packed", "until"
"""Kind and key of the record with the id up to which the versions of the store were packed. It is not copied."""
_AT_ONCE = 2_000  # versions that are divided by memory together
_PIECE_BYTES, _PIECE_TEXTS = FULL_BYTES // 8, 200
_SOON_BYTES = FULL_BYTES // 2
_BEFORE = 2  # the version that was current when the memory was last packed, and one that is in its newest pack


def packing(context: StoreCore) -> Iterator[None]:
    """Pack what was superseded since the last time. Yield between pieces. Ends also if others go on writing."""
    position = begun = context.read(lambda snapshot: snapshot.get_record(PACKED, UNTIL)) or ""
    is_last = False
    while not is_last:
        pieces, following, is_last = context.read(lambda snapshot, after=position: _pieces(snapshot, after))  # type: ignore[misc]
        for number, piece in enumerate(pieces):
            if number or position != begun:
                yield
            context.follow_up(lambda tx, piece=piece: tx.pack(piece))  # type: ignore[misc]
        if following:
            position = following
            context.follow_up(lambda tx, value=position: tx.put_record(PACKED, UNTIL, value))  # type: ignore[misc]
    if position != begun:
        context.backend.collect(context.id)  # objects with the texts that are in packs now


def pack_memory(context: StoreCore, memory_id: str) -> None:
    """Pack the latest superseded texts of a memory. The next sweep fills up the packs."""

    def work(tx: Transaction) -> None:
        ids, size = list[str](), 0
        for version in tx.versions(memory_id=memory_id, limit=SOON + 1):  # the newest one stays as it is
            size += version.size_bytes or 0
            if size > _SOON_BYTES and len(ids) > 1:
                break
            ids.append(version.id)
        tx.pack(ids)

    context.follow_up(work)


def _pieces(snapshot: Snapshot, after: str) -> tuple[list[list[str]], str, bool]:
    """Divide versions after a position into pieces. Also return the next position, or "", and whether it is the end."""
    page = list(snapshot.versions(after=after, limit=_AT_ONCE, oldest_first=True))
    by_memory: dict[str, list[tuple[str, int]]] = {}
    for version in page:
        by_memory.setdefault(version.memory_id, []).append((version.id, version.size_bytes or 0))
    pieces, size = [list[str]()], 0
    for memory_id, versions in by_memory.items():
        earlier = snapshot.versions(memory_id=memory_id, before=versions[0][0], limit=_BEFORE) if after else ()
        before = ""  # version of the same memory, which may be in a pack that is not full
        for version_id, size_bytes in (*((each.id, each.size_bytes or 0) for each in earlier), *versions):
            if len(pieces[-1]) >= _PIECE_TEXTS or size + size_bytes > _PIECE_BYTES:
                pieces.append([before] if before else [])
                size = 0
            pieces[-1].append(version_id)
            size, before = size + size_bytes, version_id
    return [piece for piece in pieces if len(piece) > 1], page[-1].id if page else "", len(page) < _AT_ONCE
