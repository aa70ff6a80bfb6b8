"""Memory paths and their parser.

A `MemoryPath` is always valid. It is `/memories` (the root) or a path below the root, and it is in Unicode NFC. A
program that percent-decodes or normalises it again cannot get a path outside the root. Rules: docs/commands.md,
"Paths".
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from itertools import accumulate

from retentive.errors import Phrase, Refused

ROOT = "/memories"
MAX_SEGMENT_BYTES = 255  # NAME_MAX of ext4, APFS and NTFS
MAX_PATH_BYTES = 1_024  # below the root; the limit of the hosted memory stores
MAX_SEGMENTS = 20
RESERVED = frozenset({".git", ".hg", ".svn", ".jj", ".obsidian", ".trash", ".stversions"})
"""Names of directories that other programs keep beside the memories. No memory path contains one."""

# Paths of only these characters need no further check, because decoding and normalising do not change them. Only names
# that begin with a dot can be reserved, `.` or `..`.
_PLAIN = re.compile(r"/memories(?:/[A-Za-z0-9_. ()+,=@~-]{1,255}){1,20}")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_MAX_SHOWN_CHARS = 3_001  # a reply shows fewer; redaction needs the rest to recognise a sensitive value at the cut
_MAX_COMPOSED = 4  # most code points that NFC composes into one
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs"})
_LINE_SEPARATORS = frozenset("\u2028\u2029")
_JOINERS = "\u200c\u200d"  # ordinary spelling in Persian, Hindi and emoji
_WITHOUT_JOINERS = dict.fromkeys(map(ord, _JOINERS))
_OF_EDITORS = re.compile(r".*~|#.*#|\..*\.sw.|~\$.*|4913|.*\.orig", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MemoryPath:
    """Parsed and valid path of a memory or directory.

    `text` is canonical: in NFC, without doubled or trailing slashes. Only `text` is compared for equality. `written` is
    the path as the caller wrote it, for replies. `mount` is the path at which the caller sees the memory store. Paths
    sort by their UTF-8 bytes. Python strings have the same order.
    """

    text: str
    written: str = field(compare=False, repr=False)
    mount: str = field(default=ROOT, compare=False, repr=False)

    @classmethod
    def parse(cls, written: str) -> MemoryPath:
        """Parse a path that a caller wrote. Raises `Refused` for an invalid path."""
        if "/." not in written and _PLAIN.fullmatch(written) and len(written) - len(ROOT) - 1 <= MAX_PATH_BYTES:
            return cls(written, written)
        if written != ROOT and not written.startswith(ROOT + "/"):  # NFC neither adds nor removes this prefix
            raise Refused("path_outside", path=_shown(written))
        steps = (-1 if name == ".." else name not in {"", "."} for name in written[len(ROOT) :].split("/"))
        if min(accumulate(steps)) < 0:
            raise Refused("path_escapes", path=_shown(written))
        _check_size(written)
        normal = unicodedata.normalize("NFC", written)
        segments = [segment for segment in normal[len(ROOT) :].split("/") if segment]
        for segment in segments:
            _check_segment(segment, written)
        text = "/".join([ROOT, *segments])
        if (reason := exceeded_limit(text)) is not None:
            raise _refused(written, reason.key, **reason.values)
        return cls(text, written)

    @classmethod
    def known(cls, text: str) -> MemoryPath:
        """Wrap a path that is already canonical, such as a path from storage."""
        return cls(text, text)

    def __str__(self) -> str:
        return self.text

    @property
    def is_root(self) -> bool:
        """Return whether this is `/memories` itself."""
        return self.text == ROOT

    def contains(self, other: MemoryPath) -> bool:
        """Return whether `other` is strictly below this path."""
        return other.text.startswith(self.text + "/")

    def within(self, mount: str) -> MemoryPath:
        """Return this path as a path inside the memory store mounted at `mount`.

        `mount` is this path or the path of a directory above it, in canonical form.
        """
        return MemoryPath(ROOT + self.text[len(mount) :], self.written, mount)

    def outward(self, text: str) -> str:
        """Convert `text`, a canonical path inside the memory store, to the path that the caller uses for it."""
        return self.mount + text[len(ROOT) :]

    def moved(self, text: str, new: MemoryPath) -> str:
        """Return the path that `text` gets when this path is renamed to `new`. `text` is this path or a path below it.

        Raises `Refused` if the new path is too long or too deep. The limits apply to the path that the caller sees,
        because a mount point can make that path longer.
        """
        path = new.text + text[len(self.text) :]
        excess = exceeded_limit(new.outward(path))
        if excess is not None:
            reason = Phrase("reason_moved", {"moved": self.outward(text), "excess": excess})
            raise Refused("invalid_path", path=visible(new.written), reason=reason)
        return path


def ancestors(text: str) -> tuple[str, ...]:
    """Return the canonical paths of the directories between the root and the canonical path `text`, shortest first."""
    names = text.split("/")
    return tuple(["/".join(names[:end]) for end in range(3, len(names))]) if len(names) > 3 else ()


def is_within(path: str | None, place: str) -> bool:
    """Return whether the canonical path `path` is `place` or below it. None is within no place."""
    return path is not None and (path == place or path.startswith(place + "/"))


def exceeded_limit(text: str) -> Phrase | None:
    """Return the reason why a canonical path is too long or too deep, or None if it is within the limits."""
    below = text[len(ROOT) + 1 :]
    segments = below.split("/")
    if any(len(segment.encode("utf-8", "surrogatepass")) > MAX_SEGMENT_BYTES for segment in segments):
        return Phrase("reason_segment_bytes", {"limit": MAX_SEGMENT_BYTES})
    if len(segments) > MAX_SEGMENTS:
        return Phrase("reason_segments", {"limit": MAX_SEGMENTS})
    if len(below.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        return Phrase("reason_path_bytes", {"limit": MAX_PATH_BYTES})
    return None


def is_reserved(segment: str) -> bool:
    """Return whether a name is one of `RESERVED`, in any case and with or without U+200C and U+200D."""
    return _bare(segment) in RESERVED


def is_editor_file(name: str) -> bool:
    """Return whether a name is that of a temporary or backup file of an editor, such as `notes.md~`."""
    return _OF_EDITORS.fullmatch(name) is not None


def visible(text: str) -> str:
    r"""Escape invisible characters as `\uXXXX`. A character above U+FFFF becomes a surrogate pair, as in JSON."""
    return "".join(_escaped(char) if _is_unseen(char) else char for char in text)


def visible_path(path: str) -> str:
    r"""Escape the invisible characters that no accepted path contains, as `\uXXXX`."""
    return "".join(
        _escaped(char) if _is_unseen(char) and not _joins(path, position) else char
        for position, char in enumerate(path)
    )


def _check_size(written: str) -> None:
    """Refuse an overlong path before it is normalised, because normalising takes quadratic time."""
    segments = [segment for segment in written[len(ROOT) :].split("/") if segment]
    if any(len(segment) > MAX_SEGMENT_BYTES * _MAX_COMPOSED for segment in segments):
        raise _refused(written, "reason_segment_bytes", limit=MAX_SEGMENT_BYTES)
    if len(segments) > MAX_SEGMENTS:
        raise _refused(written, "reason_segments", limit=MAX_SEGMENTS)


def _check_segment(segment: str, written: str) -> None:
    if len(segment) > MAX_SEGMENT_BYTES:  # limits the work of the decoding below
        raise _refused(written, "reason_segment_bytes", limit=MAX_SEGMENT_BYTES)
    if segment in {".", ".."}:
        raise _refused(written, "reason_dots", name=segment)
    if "\\" in segment:
        raise _refused(written, "reason_backslash")
    for position, char in enumerate(segment):
        if _is_unseen(char) and not _joins(segment, position):
            raise _refused(written, "reason_unseen", code_point=f"U+{ord(char):04X}")
    if _hides_separator(segment):
        raise _refused(written, "reason_encoded")
    if is_reserved(segment):
        raise _refused(written, "reason_reserved", name=_bare(segment))


def _joins(text: str, position: int) -> bool:
    """Return whether the character at `position` is a joiner between two other characters of a name."""
    beside = text[position - 1 : position] + text[position + 1 : position + 2]
    return text[position] in _JOINERS and len(beside) == 2 and not {"/", *_JOINERS} & set(beside)


def _bare(segment: str) -> str:
    """Return a name as file systems compare it that ignore case and joiners."""
    return segment.translate(_WITHOUT_JOINERS).casefold()


def _hides_separator(segment: str) -> bool:
    """Return whether percent-decoding, NFKC or ignoring joiners, in any order, can make a name that leads elsewhere.

    The loop ends because decoding shortens the text and because a second normalisation changes nothing.
    """
    forms: set[str] = set()
    waiting = [segment]
    while waiting:
        form = waiting.pop()
        if form not in forms:
            forms.add(form)
            waiting += [
                _ESCAPES.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode("utf-8", "replace"), form),
                unicodedata.normalize("NFKC", form),
                form.translate(_WITHOUT_JOINERS),  # HFS+ ignores joiners when it compares names
            ]
    return any(
        form in {".", ".."} or any(char in "/\\" or unicodedata.category(char) == "Cc" for char in form)
        for form in forms - {segment}
    )


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in _UNSEEN_CATEGORIES or char in _LINE_SEPARATORS


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _refused(written: str, reason: str, **values: object) -> Refused:
    return Refused("invalid_path", path=_shown(written), reason=Phrase(reason, values))


def _shown(written: str) -> str:
    return visible(written[:_MAX_SHOWN_CHARS])
