"""Memory paths: the only door by which a path comes in.

A `MemoryPath` cannot be wrong: it is the root `/memories` or lies below it, is in Unicode NFC, and none of its
segments can leave the root, however a later reader decodes it. Rules: docs/commands.md, "Paths".
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from retentive.errors import Phrase, Refused

ROOT = "/memories"
MAX_SEGMENT_BYTES = 255  # NAME_MAX of ext4, APFS and NTFS
MAX_PATH_BYTES = 1_024  # below the root; the limit of the hosted memory stores
MAX_SEGMENTS = 20

# One segment of nothing but these needs no further look: no escape, no fold, no normalisation can change it.
_PLAIN = re.compile(r"/memories(?:/(?!\.\.?(?:/|$))[A-Za-z0-9_. ()+,=@~-]{1,255}){1,20}")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_MOST_SHOWN = 3_001  # characters: of what a reply shows, and looks at before
_MAX_COMPOSED = 4  # code points that NFC can make one of
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs"})
_LINE_SEPARATORS = frozenset("\u2028\u2029")


@dataclass(frozen=True, slots=True)
class MemoryPath:
    """A parsed path. `text` is canonical (no double or trailing `/`, NFC); equality looks at it alone.

    `written` is the path as the caller wrote it, for replies; `mount` is where the caller sees the root of the store
    the path lies in. Paths sort by the bytes of their UTF-8 form, which is the order of Python's strings.
    """

    text: str
    written: str = field(compare=False, repr=False)
    mount: str = field(default=ROOT, compare=False, repr=False)

    @classmethod
    def parse(cls, written: str) -> MemoryPath:
        """The path that `written` names. Raises `Refused` for one that docs/commands.md refuses."""
        if _PLAIN.fullmatch(written) and len(written) - len(ROOT) - 1 <= MAX_PATH_BYTES:
            return cls(written, written)
        if written != ROOT and not written.startswith(ROOT + "/"):  # NFC makes none of these characters, and keeps them
            raise Refused("path_outside", path=_shown(written))
        if _leads_above_root(written):
            raise Refused("path_escapes", path=_shown(written))
        _check_size(written)
        normal = unicodedata.normalize("NFC", written)
        segments = [segment for segment in normal[len(ROOT) :].split("/") if segment]
        for segment in segments:
            _check_segment(segment, written)
        text = "/".join([ROOT, *segments])
        if (reason := limit_broken(text)) is not None:
            raise _refused(written, reason.key, **reason.values)
        return cls(text, written)

    @classmethod
    def known(cls, text: str) -> MemoryPath:
        """A path that was canonical when it was stored."""
        return cls(text, text)

    def __str__(self) -> str:
        return self.text

    @property
    def is_root(self) -> bool:
        """Whether this is `/memories` itself."""
        return self.text == ROOT

    @property
    def ends_with_slash(self) -> bool:
        """Whether it was written as directories are: with a `/` at the end."""
        return self.written.endswith("/")

    @property
    def segments(self) -> tuple[str, ...]:
        """The names below the root, none for the root."""
        return tuple(self.text.split("/")[2:])

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The canonical paths strictly between the root and this one, shortest first."""
        return ancestors(self.text)

    def contains(self, other: MemoryPath) -> bool:
        """Whether `other` lies strictly below this path."""
        return other.text.startswith(self.text + "/")

    def within(self, mount: str) -> MemoryPath:
        """This path inside the store mounted at the canonical path `mount`, which is this path or lies above it."""
        return MemoryPath(ROOT + self.text[len(mount) :], self.written, mount)

    def outward(self, text: str) -> str:
        """What the caller of this path calls the canonical path `text` of the same store."""
        return self.mount + text[len(ROOT) :]

    def leading_to(self, text: str) -> MemoryPath:
        """The canonical path `text` of the same store, as the caller of this path would write it."""
        return MemoryPath(text, self.outward(text), self.mount)

    def moved(self, text: str, new: MemoryPath) -> str:
        """Where the canonical path `text`, this one or below it, goes when this one becomes `new`.

        Raises `Refused` if the caller's path, which is never the shorter, would be over a limit there.
        """
        path = new.text + text[len(self.text) :]
        broken = limit_broken(new.outward(path))
        if broken is not None:
            reason = Phrase("reason_moved", {"moved": self.outward(text), "excess": broken})
            raise Refused("invalid_path", path=new.written, reason=reason)
        return path


def ancestors(text: str) -> tuple[str, ...]:
    """The canonical paths strictly between the root and the canonical path `text`, shortest first."""
    names = text.split("/")
    return tuple("/".join(names[:end]) for end in range(3, len(names)))


def limit_broken(text: str) -> Phrase | None:
    """Which limit of length or depth the canonical path `text` is over, if any."""
    below = text[len(ROOT) + 1 :]
    segments = below.split("/")
    if any(len(segment.encode("utf-8", "surrogatepass")) > MAX_SEGMENT_BYTES for segment in segments):
        return Phrase("reason_segment_bytes", {"limit": MAX_SEGMENT_BYTES})
    if len(segments) > MAX_SEGMENTS:
        return Phrase("reason_segments", {"limit": MAX_SEGMENTS})
    if len(below.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        return Phrase("reason_path_bytes", {"limit": MAX_PATH_BYTES})
    return None


def visible(text: str) -> str:
    r"""`text` with every character that cannot be seen written as `\uXXXX` (two of them above U+FFFF, as in JSON)."""
    return "".join(_escaped(char) if _is_unseen(char) else char for char in text)


def _leads_above_root(written: str) -> bool:
    depth = 0
    for segment in written[len(ROOT) :].split("/"):
        if segment == "..":
            depth -= 1
        elif segment not in {"", "."}:
            depth += 1
        if depth < 0:
            return True
    return False


def _check_size(written: str) -> None:
    """Refuse what is too long in any form, before it is normalised: that takes time by the square of a segment."""
    segments = [segment for segment in written[len(ROOT) :].split("/") if segment]
    if any(len(segment) > MAX_SEGMENT_BYTES * _MAX_COMPOSED for segment in segments):
        raise _refused(written, "reason_segment_bytes", limit=MAX_SEGMENT_BYTES)
    if len(segments) > MAX_SEGMENTS:
        raise _refused(written, "reason_segments", limit=MAX_SEGMENTS)


def _check_segment(segment: str, written: str) -> None:
    if len(segment) > MAX_SEGMENT_BYTES:  # before the decoding below, so that its work is bounded
        raise _refused(written, "reason_segment_bytes", limit=MAX_SEGMENT_BYTES)
    if segment in {".", ".."}:
        raise _refused(written, "reason_dots", name=segment)
    if "\\" in segment:
        raise _refused(written, "reason_backslash")
    for char in segment:
        if _is_unseen(char):
            raise _refused(written, "reason_unseen", code_point=f"U+{ord(char):04X}")
    if any(_escapes(form) for form in _decoded_forms(segment)):
        raise _refused(written, "reason_encoded")


def _decoded_forms(segment: str) -> set[str]:
    """All that `segment` can become by percent-decoding and NFKC folding, in any order, until nothing changes.

    Bounded: decoding shortens, and folding what is folded changes nothing.
    """
    forms: set[str] = set()
    waiting = [segment]
    while waiting:
        form = waiting.pop()
        if form not in forms:
            forms.add(form)
            waiting += [_percent_decoded(form), unicodedata.normalize("NFKC", form)]
    return forms - {segment}


def _percent_decoded(text: str) -> str:
    return _ESCAPES.sub(lambda run: bytes.fromhex(run.group().replace("%", "")).decode("utf-8", "replace"), text)


def _escapes(form: str) -> bool:
    if form in {".", ".."} or "/" in form or "\\" in form:
        return True
    return any(unicodedata.category(char) == "Cc" for char in form)


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in _UNSEEN_CATEGORIES or char in _LINE_SEPARATORS


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _refused(written: str, reason: str, **values: object) -> Refused:
    return Refused("invalid_path", path=_shown(written), reason=Phrase(reason, values))


def _shown(written: str) -> str:
    return visible(written[:_MOST_SHOWN])
