r"""Line-based comparison of texts: changes, unified diff, blame and three-way merge.

Pure functions on str. Lines end only at `\n`. A last line without `\n` differs from the same line with `\n`, so results
are exact to the byte. Line numbers start at 0, and a range of lines excludes its end.

The longest common subsequence is computed with bit operations: each line of one text is compared with all lines of the
other in a few integer operations (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004). The time depends only
on the number of lines, so there is no slow worst case: comparing 3,000 lines with 3,000 lines takes a few milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from retentive.errors import InvalidInput

K = TypeVar("K")
LineKind: TypeAlias = Literal["header", "hunk", "context", "removed", "added"]
LineSpan: TypeAlias = tuple[int, int]
_LineMarks: TypeAlias = Mapping[int, Sequence[LineSpan]]

NOWHERE = "/dev/null"  # name of a text that does not exist
NO_NEWLINE = "\\ No newline at end of file"
CONTEXT_LINES = 3
MAX_MARKED_WORDS = 5_000  # words on each side of a change; in larger changes, differing words are not marked
_MAX_CELLS = 200_000_000  # old lines times new lines of an exact comparison: 25 MB of bits, 0.1 s
_SIGNS: dict[LineKind, str] = {"context": " ", "removed": "-", "added": "+"}

# Scripts without spaces (Thai to Khmer, kana, Han): each character is a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
_UNSPACED += "\U00020000-\U0003ffff"
_JOINED = "\u0300-\u036f\u200d\ufe00-\ufe0f"  # accents, joiners and variation selectors belong to the letter before
_WORDS = re.compile(rf"[{_UNSPACED}][{_JOINED}]*|(?:[^\W{_UNSPACED}][{_JOINED}]*)+|[^\w\s][{_JOINED}]*")


@dataclass(frozen=True, slots=True)
class LineChange:
    """Replacement of a range of lines.

    `removed` are the lines of the old text, starting at line `old_start`. `added` are the lines of the new text,
    starting at line `new_start`. Lines include their newline. At least one of `removed` and `added` is not empty.
    """

    old_start: int
    new_start: int
    removed: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def old_end(self) -> int:
        """Index after the last removed line."""
        return self.old_start + len(self.removed)

    @property
    def new_end(self) -> int:
        """Index after the last added line."""
        return self.new_start + len(self.added)


@dataclass(frozen=True, slots=True)
class DiffLine:
    """Line of a unified diff. `text` excludes the sign and the newline.

    `marks` are ranges of characters in `text`: the words that differ from the other text. `marks` is empty if the two
    texts have few words in common. `newline` is False for a last line without a newline.
    """

    kind: LineKind
    text: str = field(repr=False)
    marks: tuple[LineSpan, ...] = ()
    newline: bool = True

    @property
    def row(self) -> str:
        """The line as a diff prints it: the sign, then the text."""
        return _SIGNS.get(self.kind, "") + self.text


@dataclass(frozen=True, slots=True)
class MergePart:
    """Part of a merged text.

    If the two sides conflict, `ours` and `theirs` are their different texts, and `line` is the first line of `ours`.
    Otherwise both are the merged text, and `line` is None.
    """

    ours: str = field(repr=False)
    theirs: str = field(repr=False)
    line: int | None = None


def lines(text: str) -> list[str]:
    r"""Split a text into lines, each with its `\n`. Only the last line may lack a `\n`."""
    ended = text.split("\n")
    last = ended.pop()
    kept = [line + "\n" for line in ended]
    return [*kept, last] if last else kept


def unified(old: str | None, new: str | None, *, old_name: str, new_name: str) -> list[DiffLine]:
    """Return a unified diff with three unchanged lines around each change. Equal texts give an empty list.

    If `old` or `new` is None, this text does not exist. The diff shows it as empty, with the name `/dev/null`. Other
    names, such as `a/notes.md`, are printed as given. Raises `InvalidInput` for a name that is empty or
    has a control character.
    """
    before, after = lines(old or ""), lines(new or "")
    changes = _changes(before, after)
    header = f"--- {_name(old_name, old)}", f"+++ {_name(new_name, new)}"
    diff = [DiffLine("header", name) for name in header] if changes else []
    first = 0
    for end in range(1, len(changes) + 1):
        if end == len(changes) or changes[end].old_start - changes[end - 1].old_end > 2 * CONTEXT_LINES:
            diff += _hunk(after, changes[first:end], len(before))
            first = end
    return diff


def as_text(diff: Iterable[DiffLine]) -> str:
    """Format the diff as text that `patch` and `git apply` accept."""
    return "".join(f"{line.row}\n" if line.newline else f"{line.row}\n{NO_NEWLINE}\n" for line in diff)


def blame(texts: Sequence[tuple[K, str]]) -> list[K]:
    """Return one key for each line of the last text: the key of the version that added the line.

    `texts` contains the key and the text of each version, oldest first. The text of a deletion is empty. If a line was
    removed and later added again, its key is the key of the later version.
    """
    keys: list[K] = []
    present: list[str] = []
    for key, text in texts:
        before, present = present, lines(text)
        kept, keys, at = keys, [], 0
        for change in _changes(before, present):
            keys += kept[at : change.old_start]
            keys += [key] * len(change.added)
            at = change.old_end
        keys += kept[at:]
    return keys


def merge(base: str, ours: str, theirs: str) -> str | None:
    """Return the text with the changes that two sides made to the text `base`, or None if their changes conflict.

    If only one side made a change, it is applied. If both sides made the same change, it is applied once. Different
    changes conflict if they overlap or have no unchanged line between them, as in Git.
    """
    parts = merge_parts(base, ours, theirs)
    return None if any(part.line is not None for part in parts) else "".join(part.ours for part in parts)


def merge_parts(base: str, ours: str, theirs: str) -> list[MergePart]:
    """Merge like `merge`, but return the result as a list of parts. Each conflict is a separate part."""
    before, sides = lines(base), (lines(ours), lines(theirs))
    edits = [(change, side) for side, rows in enumerate(sides) for change in _changes(before, rows)]
    edits.sort(key=lambda edit: (edit[0].old_start, edit[0].old_end))
    parts: list[MergePart] = []
    at, shifts = 0, [0, 0]  # line in base + shift of a side = line on that side
    while edits:
        start, end = edits[0][0].old_start, edits[0][0].old_end
        firsts = [start + shift for shift in shifts]
        changed = set[int]()
        while edits and edits[0][0].old_start <= end:  # changes that overlap or are adjacent
            change, side = edits.pop(0)
            end = max(end, change.old_end)
            shifts[side] += len(change.added) - len(change.removed)
            changed.add(side)
        one, two = ("".join(sides[side][firsts[side] : end + shifts[side]]) for side in (0, 1))
        kept = "".join(before[at:start])
        parts.append(MergePart(kept, kept))
        if len(changed) == 2 and one != two:
            parts.append(MergePart(one, two, firsts[0]))
        else:
            merged = two if changed == {1} else one
            parts.append(MergePart(merged, merged))
        at = end
    rest = "".join(before[at:])
    return [*parts, MergePart(rest, rest)]


def _hunk(after: Sequence[str], changes: Sequence[LineChange], old_lines: int) -> list[DiffLine]:
    first, last = changes[0], changes[-1]
    start, end = max(first.old_start - CONTEXT_LINES, 0), min(last.old_end + CONTEXT_LINES, old_lines)
    new_start, new_end = start + first.new_start - first.old_start, end + last.new_end - last.old_end
    rows: list[DiffLine] = []
    at = new_start
    for change in changes:
        removed, added = _marks(change.removed, change.added)
        rows += _rows("context", after[at : change.new_start], {})
        rows += _rows("removed", change.removed, removed)
        rows += _rows("added", change.added, added)
        at = change.new_end
    rows += _rows("context", after[at:new_end], {})
    ranges = f"-{_range(start, end - start)} +{_range(new_start, new_end - new_start)}"
    return [DiffLine("hunk", f"@@ {ranges} @@"), *rows]


def _rows(kind: LineKind, texts: Sequence[str], marks: _LineMarks) -> Iterator[DiffLine]:
    for at, text in enumerate(texts):
        yield DiffLine(kind, text.removesuffix("\n"), tuple(marks.get(at, ())), text.endswith("\n"))


def _range(start: int, count: int) -> str:
    """Format a line range for a hunk header, which numbers lines from 1.

    An empty range has the number of the line before it. A range of one line has no count.
    """
    return str(start + 1) if count == 1 else f"{start + 1 if count else start},{count}"


def _name(name: str, text: str | None) -> str:
    if text is None:
        return NOWHERE
    if not name or any(ord(char) < 32 or ord(char) == 127 for char in name):
        raise InvalidInput("a name in a diff must not be empty or contain control characters")
    return name + "\t" if " " in name else name  # without the tab, patch reads only the first word of the name


def _marks(removed: Sequence[str], added: Sequence[str]) -> tuple[_LineMarks, _LineMarks]:
    """Return the spans of the words that differ, first in the removed lines, then in the added lines.

    Both results map lines to spans. They are empty if the words that both sides have in common
    make up less than half of the shorter side.
    """
    old, new = (
        [(row, *word.span()) for row in range(len(rows)) for word in _WORDS.finditer(rows[row])]
        for rows in (removed, added)
    )
    if not old or not new or max(len(old), len(new)) > MAX_MARKED_WORDS:
        return {}, {}
    old_words = [removed[row][start:end] for row, start, end in old]
    new_words = [added[row][start:end] for row, start, end in new]
    pairs = _common(old_words, new_words)
    if 2 * sum(len(old_words[at]) for at, _ in pairs) < min(sum(map(len, old_words)), sum(map(len, new_words))):
        return {}, {}
    return _unpaired(removed, old, {at for at, _ in pairs}), _unpaired(added, new, {at for _, at in pairs})


def _unpaired(rows: Sequence[str], words: Sequence[tuple[int, int, int]], paired: set[int]) -> _LineMarks:
    """Return the spans of the other words by line. Words that are separated only by white space share a span."""
    marks: dict[int, list[LineSpan]] = {}
    for at, (row, start, end) in enumerate(words):
        if at in paired:
            continue
        spans = marks.setdefault(row, [])
        if spans and not rows[row][spans[-1][1] : start].strip():
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return marks


def _changes(old: Sequence[str], new: Sequence[str]) -> list[LineChange]:
    changes: list[LineChange] = []
    old_at = new_at = 0
    for old_next, new_next in [*_common(old, new), (len(old), len(new))]:
        if old_next > old_at or new_next > new_at:
            changes.append(LineChange(old_at, new_at, tuple(old[old_at:old_next]), tuple(new[new_at:new_next])))
        old_at, new_at = old_next + 1, new_next + 1
    return changes


def _common(old: Sequence[str], new: Sequence[str]) -> list[LineSpan]:
    """Return the line numbers (old, new) of the lines in a longest common subsequence.

    Each pair is as early as possible, so that what is added or removed is as late as possible. If the texts are too
    large to compare exactly, only the lines that they have in common at both ends are found.
    """
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = 0
    if (len(old) - head) * (len(new) - head) > _MAX_CELLS:
        tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    in_both = set(old[head : len(old) - tail]) & set(new[head : len(new) - tail])
    old_at = [at for at in range(head, len(old) - tail) if old[at] in in_both]
    new_at = [at for at in range(head, len(new) - tail) if new[at] in in_both]
    middle: list[LineSpan] = []
    if len(old_at) * len(new_at) <= _MAX_CELLS:
        middle = _longest([old[at] for at in old_at], [new[at] for at in new_at])
    return [
        *((at, at) for at in range(head)),
        *((old_at[left], new_at[right]) for left, right in middle),
        *((len(old) - at, len(new) - at) for at in range(tail, 0, -1)),
    ]


def _longest(old: Sequence[str], new: Sequence[str]) -> list[LineSpan]:
    """Compute a longest common subsequence with bit operations.

    Each new line has a row of bits, one for each old line, both counted from the end. For bit i of row j, take the
    longest common subsequence of the last j new lines and the last i old lines. The bit is 0 if one more old line makes
    this subsequence longer.
    """
    places: dict[str, int] = {}
    for at, line in enumerate(reversed(old)):
        places[line] = places.get(line, 0) | 1 << at
    full = (1 << len(old)) - 1
    row = full
    rows: list[int] = []
    for line in reversed(new):
        found = row & places.get(line, 0)
        row = (row + found | row - found) & full
        rows.append(row)
    pairs: list[LineSpan] = []
    left = right = 0
    while left < len(old) and right < len(new):
        if old[left] == new[right]:
            pairs.append((left, right))
            left, right = left + 1, right + 1
        elif rows[len(new) - right - 1] >> len(old) - left - 1 & 1:
            left += 1
        else:
            right += 1
    return pairs
