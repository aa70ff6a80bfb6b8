"""Mounts as users write them: on the command line, in an environment variable, and in the URL of an MCP server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retentive.errors import InvalidInput
from retentive.values.paths import ROOT

MAX_MOUNTS = 32


@dataclass(frozen=True, slots=True)
class MountOption:
    """A memory store to mount: `POINT=KEY`, with `:ro` at the end if it may only be read.

    `key` is a store key or id. `url` is the location of the store, of `POINT=URL#KEY`, or "" for the location of the
    store at `/memories`. A point without a leading slash is below `/memories`. A key that ends with `:ro` needs `:rw`.
    """

    point: str
    key: str
    url: str = ""
    is_read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> MountOption:
        """Parse one mount. Raises `InvalidInput`. The point is checked when the tree is opened."""
        point, _, rest = text.partition("=")
        named, _, mode = rest.rpartition(":")
        if mode not in {"ro", "rw"}:
            named, mode = rest, "rw"
        url, hash_sign, key = named.rpartition("#") if "://" in named else ("", "#", named)
        if not (point and key and hash_sign):
            raise InvalidInput("a mount must be POINT=KEY or POINT=KEY:ro, such as /memories/team=team:ro")
        point = point if point.startswith("/") else f"{ROOT}/{point}"
        if point.rstrip("/") == ROOT:
            raise InvalidInput(f"{ROOT} cannot be a mount point: it is the memory store that --store or ?store= names")
        return cls(point, key, url, mode == "ro")


def mounts_in(texts: Sequence[str]) -> tuple[MountOption, ...]:
    """Parse mounts. Raises `InvalidInput`, also for more than `MAX_MOUNTS` and for two at one point."""
    if len(texts) > MAX_MOUNTS:
        raise InvalidInput(f"at most {MAX_MOUNTS} memory stores can be mounted")
    found = {each.point: each for each in map(MountOption.parse, texts)}
    if len(found) < len(texts):
        raise InvalidInput("two mounts have the same mount point; use a different one for each")
    return tuple(found.values())
