"""All objects of a location as text."""

from __future__ import annotations

import zlib

from retentive.storage.objects.records import DIGEST_CHARS

from .objects import Bottom


def everything(url: str) -> str:
    """All decompressed bytes of a location."""
    return "\n".join(f"{key} {plain(Bottom(url).get(key))}" for key in Bottom(url).listed())


def plain(data: bytes) -> str:
    """The decompressed bytes of an object."""
    head, _, body = data.partition(b"\n")
    is_compressed = head.startswith(b"retentive ") and not head.startswith((b"retentive pack ", b"retentive format "))
    return (zlib.decompress(body[DIGEST_CHARS:]) if is_compressed else data).decode(errors="replace")
