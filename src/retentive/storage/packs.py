"""Packs: superseded texts of one memory, compressed together, since consecutive texts are nearly the same.

300 small edits of a memory of 90 KB take 27 MB as whole texts, and 60 to 200 KB as packs. A pack is a zstd frame of an
index (the ids and lengths of its texts) and the texts, oldest first. Its window is as long as the pack. The current
text of a memory is never in a pack, so that reads and edits do not open one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from retentive.errors import Damaged, Locked

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["FULL_BYTES", "FULL_TEXTS", "PLAIN", "Packing", "PackingOf", "filled", "is_full", "plain_packing", "zstd"]

FULL_BYTES = 8 * 1024 * 1024  # of texts; with half as much, the packs take nearly twice the space, and opening is fast
FULL_TEXTS = 128  # so that adding to a pack of small texts, or removing one of them, stays fast
_HEAD_BYTES = 4  # length of the index
_LEVEL, _LEAST_WINDOW, _LARGEST_WINDOW = 3, 10, 24


class Packing:
    """How a store keeps its packs and texts. The encryption layer has a subclass that encrypts and decrypts them."""

    def stored(self, version_id: str, text: bytes) -> bytes:
        """Return the form in which the text of a version is stored outside packs."""
        return text

    def opened(self, version_id: str, stored: bytes) -> bytes:
        """Return the text of a version. The inverse of `stored`. Raises `Damaged`."""
        return stored

    def wrapped(self, frame: bytes) -> bytes:
        """Return the stored form of a frame."""
        return frame

    def unwrapped(self, stored: bytes) -> bytes:
        """Return the frame. The inverse of `wrapped`. Raises `Damaged`."""
        return stored

    def encode(self, texts: Mapping[str, bytes]) -> bytes:
        """Return the stored form of a pack. `texts` has texts by the ids of their versions, oldest first."""
        index = json.dumps([[version_id, len(text)] for version_id, text in texts.items()], separators=(",", ":"))
        head = len(index).to_bytes(_HEAD_BYTES), index.encode()
        size = sum(map(len, (*head, *texts.values())))
        option, window = zstd.CompressionParameter, max(size.bit_length(), _LEAST_WINDOW)
        options: dict[int, int] = {option.compression_level: _LEVEL, option.window_log: min(window, _LARGEST_WINDOW)}
        options |= {option.enable_long_distance_matching: 1, option.checksum_flag: 1}
        writer = zstd.ZstdCompressor(options=options)
        writer.set_pledged_input_size(size)
        parts = [writer.compress(part) for part in (*head, *texts.values())]
        return self.wrapped(b"".join((*parts, writer.flush())))

    def decode(self, stored: bytes) -> dict[str, bytes]:
        """Return the texts of a pack. Raises `Damaged`."""
        # Each text is decompressed by itself: as one result, 8 MB take 30 ms instead of 3, because of fresh memory.
        frame, reader = [self.unwrapped(stored)], zstd.ZstdDecompressor()

        def take(size: int) -> bytes:
            data = reader.decompress(frame.pop() if frame else b"", size) if size else b""
            if len(data) != size:
                raise ValueError("the frame is cut off")
            return data

        try:
            index = json.loads(take(min(int.from_bytes(take(_HEAD_BYTES)), FULL_BYTES)))
            fits = sum(size for _, size in index) <= FULL_BYTES
            texts = {str(version_id): take(size) for version_id, size in index} if fits else {}
            is_whole = fits and (reader.eof or (not reader.decompress(b"", 1) and reader.eof))
        except (zstd.ZstdError, EOFError, ValueError, TypeError, MemoryError, RecursionError):
            is_whole = False
        if not is_whole:
            raise Damaged("a pack of earlier texts is truncated or was modified")
        return texts


class LockedPacking(Packing):
    """Packing of an encrypted store without its keys."""

    def unwrapped(self, stored: bytes) -> bytes:
        """Raise `Locked`."""
        raise Locked("earlier texts of the encrypted memory store are compressed; copying them needs the keys")


PLAIN, LOCKED = Packing(), LockedPacking()
PackingOf: TypeAlias = Callable[[str, str | None], Packing]
"""Returns the packing of the store with an id and a seal."""


def plain_packing(store_id: str, seal: str | None) -> Packing:
    """Return the packing of a store that is read without keys."""
    return PLAIN if seal is None else LOCKED


def is_full(texts: Mapping[str, bytes]) -> bool:
    """Return whether no text can be added to a pack."""
    return len(texts) >= FULL_TEXTS or sum(map(len, texts.values())) >= FULL_BYTES


def filled(texts: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Divide texts of one memory into packs that are full, and a rest."""
    pack, size = dict[str, bytes](), 0
    for version_id, text in sorted(texts.items()):
        if pack and (len(pack) >= FULL_TEXTS or size + len(text) > FULL_BYTES):
            yield pack
            pack, size = {}, 0
        pack[version_id] = text
        size += len(text)
    yield pack
