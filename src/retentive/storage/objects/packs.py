"""Packs: the texts that one commit wrote, in one object. No request is made here.

A reference to a text says where it was when its pack was written: pack, offset, length and digest. The bytes stand at
that offset until a text of the pack is erased; then the pack is rewritten without it, and the table at its end tells
where the others are now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retentive.errors import Damaged
from retentive.storage.objects.records import check_head, digest, head_of

_HEAD = head_of("pack")
_LENGTH_DIGITS = 8
_CUT = "a pack of the memory store was cut or altered"


class TextRef(NamedTuple):
    """A reference, taken apart."""

    pack: str
    offset: int
    length: int
    digest: str

    @classmethod
    def parse(cls, ref: str) -> TextRef:
        """Raises `Damaged`."""
        try:
            pack, offset, length, expected = ref.split("-")
            return cls(pack, int(offset, 16), int(length, 16), expected)
        except ValueError:
            raise Damaged("a reference to a text cannot be read") from None


def ref_to(pack: str, offset: int, data: bytes) -> str:
    """The reference to a text; empty for no bytes."""
    return f"{pack}-{offset:x}-{len(data):x}-{digest(data)}" if data else ""


def pack_of(ref: str) -> str:
    """The name of the pack that a reference leads to."""
    return ref.partition("-")[0]


def by_pack(refs: Iterable[str]) -> dict[str, list[str]]:
    """References by the pack they lead to; those to no bytes are left out."""
    found: dict[str, list[str]] = {}
    for ref in refs:
        if ref:
            found.setdefault(pack_of(ref), []).append(ref)
    return found


def encode_pack(texts: Mapping[int, bytes]) -> bytes:
    """The bytes of a pack, from the texts by their offsets."""
    body, table = bytearray(_HEAD), []
    for offset in sorted(texts):
        table.append((offset, len(body), len(texts[offset])))
        body += texts[offset]
    tail = "[" + ",".join(f"[{offset},{position},{length}]" for offset, position, length in table) + "]"
    return bytes(body) + f"{tail}{len(tail):0{_LENGTH_DIGITS}x}".encode()


def decode_pack(name: str, data: bytes) -> dict[str, bytes]:
    """The texts in a pack, by the references to them. Raises `Damaged`, `UnknownSchema`."""
    check_head("pack", data)
    try:
        end = len(data) - _LENGTH_DIGITS
        table = json.loads(data[end - int(data[end:], 16) : end])
        texts = {offset: data[position : position + length] for offset, position, length in table}
        return {ref_to(name, offset, text): text for offset, text in texts.items()}
    except (ValueError, TypeError):
        raise Damaged(_CUT) from None


def without(name: str, data: bytes, refs: Iterable[str]) -> bytes | None:
    """A pack without the texts that some references lead to: the same bytes if it has none of them, None if no other.

    Raises `Damaged`.
    """
    erased = {TextRef.parse(ref).offset for ref in refs}
    texts = {TextRef.parse(ref).offset: text for ref, text in decode_pack(name, data).items()}
    left = {offset: text for offset, text in texts.items() if offset not in erased}
    if not left:
        return None
    return data if len(left) == len(texts) else encode_pack(left)


class NewTexts:
    """The texts of a batch that is about to be committed. An attempt after another uses those already written again.

    `pack` is the name that new texts get, until they are `written`.
    """

    def __init__(self) -> None:
        self.pack = _new_name()
        self.new: dict[str, bytes] = {}
        self.used: list[str] = []
        self._end = len(_HEAD)
        self._written: dict[str, bytes] = {}
        self._free: dict[bytes, list[str]] = {}

    def add(self, data: bytes) -> str:
        """A reference to a text, that no other text of this attempt has."""
        free = self._free.get(data)
        if free:
            ref = free.pop()
        else:
            ref = ref_to(self.pack, self._end, data)
            self._end += len(data)
            if ref:
                self.new[ref] = data
        self.used.append(ref)
        return ref

    def get(self, ref: str) -> bytes | None:
        """A text that is perhaps not written yet."""
        return self.new.get(ref) or self._written.get(ref)

    def undo(self, mark: int) -> None:
        """Forget the texts that were added when more than `mark` had been `used`."""
        for ref in reversed(self.used[mark:]):
            if ref in self.new:
                self._end -= len(self.new.pop(ref))
            elif ref:
                self._free.setdefault(self._written[ref], []).append(ref)
        del self.used[mark:]

    def again(self) -> None:
        """Begin another attempt."""
        self.undo(0)

    def encoded(self) -> bytes:
        """The bytes of the pack with the new texts."""
        return encode_pack({TextRef.parse(ref).offset: data for ref, data in self.new.items()})

    def written(self) -> None:
        """The new texts are in the storage."""
        self._written |= self.new
        self.pack, self.new, self._end = _new_name(), {}, len(_HEAD)

    def unused(self) -> tuple[list[str], list[str]]:
        """What only earlier attempts used: texts in packs that are in use, and the names of all other packs."""
        used = set(self.used)
        packs = by_pack(used)
        unused = by_pack(ref for ref in self._written if ref not in used)
        return [ref for pack in unused if pack in packs for ref in unused[pack]], [
            pack for pack in unused if pack not in packs
        ]


def _new_name() -> str:
    return os.urandom(10).hex()
