"""Packs: one object with all texts of one commit. No I/O.

A reference to a text is its location when its pack was first written: pack, offset, length and digest. Erasing a text
rewrites the pack without it, which moves other texts; the table at the end of the pack maps original offsets to
current positions.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retentive.errors import Damaged
from retentive.storage.objects.records import check_head, digest, head_of

_HEAD = head_of("pack")
_LENGTH_DIGITS = 8
_CUT = "a pack of the memory store was cut or altered"


class TextRef(NamedTuple):
    """Parsed reference to a text."""

    pack: str
    offset: int
    length: int
    digest: str

    @classmethod
    def parse(cls, ref: str) -> TextRef:
        """Parse a reference. Raises `Damaged`."""
        try:
            pack, offset, length, expected = ref.split("-")
            return cls(pack, int(offset, 16), int(length, 16), expected)
        except ValueError:
            raise Damaged("a reference to a text cannot be read") from None


def ref_to(pack: str, offset: int, data: bytes) -> str:
    """Reference to a text; empty string for an empty text."""
    return f"{pack}-{offset:x}-{len(data):x}-{digest(data)}" if data else ""


def pack_of(ref: str) -> str:
    """Name of the pack in a reference."""
    return ref.partition("-")[0]


def by_pack(refs: Iterable[str]) -> dict[str, list[str]]:
    """Group references by pack; references to empty texts are skipped."""
    found = defaultdict[str, list[str]](list)
    for ref in filter(None, refs):
        found[pack_of(ref)].append(ref)
    return found


def encode_pack(texts: Mapping[int, bytes]) -> bytes:
    """Encode a pack from texts by original offset."""
    body, table = bytearray(_HEAD), []
    for offset in sorted(texts):
        table.append((offset, len(body), len(texts[offset])))
        body += texts[offset]
    tail = "[" + ",".join(f"[{offset},{position},{length}]" for offset, position, length in table) + "]"
    return bytes(body) + f"{tail}{len(tail):0{_LENGTH_DIGITS}x}".encode()


def decode_pack(name: str, data: bytes) -> dict[str, bytes]:
    """Decode a pack into texts by reference. Raises `Damaged`, `UnknownSchema`."""
    check_head("pack", data)
    try:
        end = len(data) - _LENGTH_DIGITS
        table = json.loads(data[end - int(data[end:], 16) : end])
        texts = {offset: data[position : position + length] for offset, position, length in table}
        return {ref_to(name, offset, text): text for offset, text in texts.items()}
    except (ValueError, TypeError):
        raise Damaged(_CUT) from None


def without(name: str, data: bytes, refs: Iterable[str]) -> bytes | None:
    """Pack without some texts: the same bytes object if it never had them, None if it has no other text.

    Raises `Damaged`.
    """
    erased = {TextRef.parse(ref).offset for ref in refs}
    texts = {TextRef.parse(ref).offset: text for ref, text in decode_pack(name, data).items()}
    left = {offset: text for offset, text in texts.items() if offset not in erased}
    if not left:
        return None
    return data if len(left) == len(texts) else encode_pack(left)


class NewTexts:
    """Texts of a batch that is about to be committed. A later attempt reuses texts uploaded by earlier ones.

    `pack` is the name of the pack for new texts, until they are `written`.
    """

    def __init__(self) -> None:
        self.pack = _new_name()
        self.new: dict[str, bytes] = {}
        self.used: list[str] = []
        self._end = len(_HEAD)
        self._written: dict[str, bytes] = {}
        self._free = defaultdict[bytes, list[str]](list)

    def add(self, data: bytes) -> str:
        """Add a text; returns a reference that no other text of this attempt has."""
        if free := self._free[data]:
            ref = free.pop()
        else:
            ref = ref_to(self.pack, self._end, data)
            self._end += len(data)
            if ref:
                self.new[ref] = data
        self.used.append(ref)
        return ref

    def get(self, ref: str) -> bytes | None:
        """Text of this batch, uploaded or not; None if unknown."""
        return self.new.get(ref) or self._written.get(ref)

    def undo(self, mark: int) -> None:
        """Discard the texts added since `used` had length `mark`."""
        for ref in reversed(self.used[mark:]):
            if ref in self.new:
                self._end -= len(self.new.pop(ref))
            elif ref:
                self._free[self._written[ref]].append(ref)
        del self.used[mark:]

    def encoded(self) -> bytes:
        """Encode the pack of new texts."""
        return encode_pack({TextRef.parse(ref).offset: data for ref, data in self.new.items()})

    def written(self) -> None:
        """Record that the new texts are uploaded; later texts go to another pack."""
        self._written |= self.new
        self.pack, self.new, self._end = _new_name(), {}, len(_HEAD)

    def unused(self) -> tuple[list[str], list[str]]:
        """Leftovers of earlier attempts: unused texts in packs still in use, and names of entirely unused packs."""
        used = set(self.used)
        packs = by_pack(used)
        unused = by_pack(ref for ref in self._written if ref not in used)
        parts = [ref for pack in unused if pack in packs for ref in unused[pack]]
        return parts, [pack for pack in unused if pack not in packs]


def _new_name() -> str:
    return os.urandom(10).hex()
