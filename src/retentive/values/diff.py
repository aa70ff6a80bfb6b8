r"""Line-based comparison of texts: changes, unified diff, blame and three-way merge.

Pure functions on str. Lines end only at `\n`. A last line without `\n` differs from the same line with `\n`, so results
are exact to the byte. Line numbers start at 0, and a range of lines excludes its end.

The longest common subsequence is computed with bit operations: each line of one text is compared with all lines of the
other in a few integer operations (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004). The time depends only
on the number of lines, so there is no slow worst case: comparing 3,000 lines with 3,000 lines takes a few milliseconds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from retentive.errors import InvalidInput

K = TypeVar("K")
LineKind: TypeAlias = Literal["header", "hunk", "context", "removed", "added"]
LineSpan: TypeAlias = tuple[int, int]
_LineMarks: TypeAlias = Mapping[int, Sequence[LineSpan]]

NOWHERE = "/dev/null"  # name of a text that does not exist
NO_NEWLINE = "\\ No newline at end of file"
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
class MergeConflict:
    """Lines that the two sides changed in different ways. Each field is the range of these lines in one text."""

    base: LineSpan
    ours: LineSpan
    theirs: LineSpan


@dataclass(frozen=True, slots=True)
class Merged:
    """Result of a three-way merge. If there are conflicts, `text` is None and `conflicts` lists them in order."""

    text: str | None = field(repr=False)
    conflicts: tuple[MergeConflict, ...] = ()


@dataclass(frozen=True, slots=True)
class MergePart:
    """Part of a merged text.

    If the part is a conflict, `ours` and `theirs` are the different texts of the two sides. Otherwise both fields are
    the merged text.
    """

    ours: str = field(repr=False)
    theirs: str = field(repr=False)
    conflict: MergeConflict | None = None


def lines(text: str) -> list[str]:
    r"""Split a text into lines, each with its `\n`. Only the last line may lack a `\n`."""
    ended = text.split("\n")
    last = ended.pop()
    kept = [line + "\n" for line in ended]
    return [*kept, last] if last else kept


def unified(
    old: str | None, new: str | None, *, old_name: str, new_name: str, context: int = 3, ignores_space: bool = False
) -> list[DiffLine]:
    """Return a unified diff with `context` unchanged lines around each change. Equal texts give an empty list.

    If `old` or `new` is None, this text does not exist. The diff shows it as empty, with the name `/dev/null`. Other
    names, such as `a/notes.md` and `b/notes.md`, are printed as given. Raises `InvalidInput` for an empty name, a name
    with a control character or a negative `context`.

    With `ignores_space`, lines that differ only in white space count as unchanged, as in `git diff -w`. The diff shows
    such lines as they are in the new text. Therefore `patch` may be unable to apply the diff to the old text.
    """
    if context < 0:
        raise InvalidInput("`context` must be an integer of at least 0")
    before, after = lines(old or ""), lines(new or "")
    changes = _changes(before, after, _squeezed if ignores_space else None)
    header = f"--- {_name(old_name, old)}", f"+++ {_name(new_name, new)}"
    diff = [DiffLine("header", name) for name in header] if changes else []
    first = 0
    for end in range(1, len(changes) + 1):
        if end == len(changes) or changes[end].old_start - changes[end - 1].old_end > 2 * context:
            diff += _hunk(after, changes[first:end], context, len(before))
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


def merge(base: str, ours: str, theirs: str) -> Merged:
    """Merge the changes that two sides made to the text `base`.

    If only one side made a change, it is applied. If both sides made the same change, it is applied once. Different
    changes conflict if they overlap or have no unchanged line between them, as in Git.
    """
    parts = merge_parts(base, ours, theirs)
    conflicts = tuple(part.conflict for part in parts if part.conflict is not None)
    return Merged(None, conflicts) if conflicts else Merged("".join(part.ours for part in parts))


def merge_parts(base: str, ours: str, theirs: str) -> list[MergePart]:
    """Merge like `merge`, but return the result as a list of parts. Each conflict is a separate part."""
    before, sides = lines(base), (lines(ours), lines(theirs))
    found: list[MergePart] = []
    at, shifts = 0, [0, 0]  # line in base + shift of a side = line on that side
    for start, end, edits in _touching(before, sides):
        firsts = [start + shift for shift in shifts]
        for change, side in edits:
            shifts[side] += len(change.added) - len(change.removed)
        spans = [(first, end + shift) for first, shift in zip(firsts, shifts, strict=True)]
        ours, theirs = ("".join(rows[slice(*span)]) for rows, span in zip(sides, spans, strict=True))
        changed = {side for _, side in edits}
        found.append(_same("".join(before[at:start])))
        if len(changed) == 2 and ours != theirs:
            found.append(MergePart(ours, theirs, MergeConflict((start, end), spans[0], spans[1])))
        else:
            found.append(_same(theirs if changed == {1} else ours))
        at = end
    return [*found, _same("".join(before[at:]))]


def _same(text: str) -> MergePart:
    return MergePart(text, text)


def _touching(
    before: Sequence[str], sides: Sequence[Sequence[str]]
) -> Iterator[tuple[int, int, list[tuple[LineChange, int]]]]:
    """Yield groups of changes that overlap or are adjacent, as (start, end, changes).

    `start` and `end` are the range of lines in `before` that the group covers. Each change comes with the index of its
    side.
    """
    edits = [(change, side) for side, rows in enumerate(sides) for change in _changes(before, rows)]
    edits.sort(key=lambda edit: (edit[0].old_start, edit[0].old_end))
    together: list[tuple[LineChange, int]] = []
    end = 0
    for change, side in edits:
        if together and change.old_start > end:
            yield together[0][0].old_start, end, together
            together, end = [], 0
        together.append((change, side))
        end = max(end, change.old_end)
    if together:
        yield together[0][0].old_start, end, together


def _hunk(after: Sequence[str], changes: Sequence[LineChange], context: int, old_lines: int) -> list[DiffLine]:
    first, last = changes[0], changes[-1]
    start, end = max(first.old_start - context, 0), min(last.old_end + context, old_lines)
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


class _Word(NamedTuple):
    line: int
    start: int
    end: int
    text: str


def _marks(removed: Sequence[str], added: Sequence[str]) -> tuple[_LineMarks, _LineMarks]:
    """Return the spans of the words that differ, first in the removed lines, then in the added lines.

    Both results map lines to spans. They are empty if the words that both sides have in common
    make up less than half of the shorter side.
    """
    old, new = _words(removed), _words(added)
    if not old or not new or max(len(old), len(new)) > MAX_MARKED_WORDS:
        return {}, {}
    pairs = _common([word.text for word in old], [word.text for word in new])
    same = sum(len(old[at].text) for at, _ in pairs)
    if 2 * same < min(sum(len(word.text) for word in words) for words in (old, new)):
        return {}, {}
    kept_old, kept_new = {at for at, _ in pairs}, {at for _, at in pairs}
    return (
        _by_line(removed, [word for at, word in enumerate(old) if at not in kept_old]),
        _by_line(added, [word for at, word in enumerate(new) if at not in kept_new]),
    )


def _words(rows: Sequence[str]) -> list[_Word]:
    return [_Word(number, *found.span(), found[0]) for number, row in enumerate(rows) for found in _WORDS.finditer(row)]


def _by_line(rows: Sequence[str], words: Iterable[_Word]) -> _LineMarks:
    """Return the spans of the words, grouped by line. Words that are separated only by white space share a span."""
    marks: dict[int, list[LineSpan]] = {}
    for number, group in groupby(words, key=attrgetter("line")):
        spans = marks[number] = []
        for word in group:
            if spans and not rows[number][spans[-1][1] : word.start].strip():
                spans[-1] = (spans[-1][0], word.end)
            else:
                spans.append((word.start, word.end))
    return marks


_Range: TypeAlias = tuple[int, int, int, int]  # start and end in the old text, start and end in the new text


def _squeezed(line: str) -> str:
    return "".join(line.split())


def _changes(old: Sequence[str], new: Sequence[str], key: Callable[[str], str] | None = None) -> list[LineChange]:
    """Return the changes between two texts. If `key` is given, lines with the same key count as equal."""
    before, after = (old, new) if key is None else (list(map(key, old)), list(map(key, new)))
    ranges: list[_Range] = []
    old_at = new_at = 0
    for old_next, new_next in [*_common(before, after), (len(old), len(new))]:
        if old_next > old_at or new_next > new_at:
            ranges.append((old_at, old_next, new_at, new_next))
        old_at, new_at = old_next + 1, new_next + 1
    return [LineChange(a, c, tuple(old[a:b]), tuple(new[c:d])) for a, b, c, d in _lowered(ranges, before, after)]


def _lowered(ranges: Sequence[_Range], old: Sequence[str], new: Sequence[str]) -> list[_Range]:
    """Move each change as far down as the text allows, and return the changes.

    Changes that become adjacent are merged.
    """
    low: list[_Range] = []  # in reverse order
    for change in reversed(ranges):
        old_start, old_end, new_start, new_end = change
        while (old_start == old_end) != (new_start == new_end):  # the change only adds lines, or only removes them
            stop = low[-1][0] if low else len(old)
            rows, start, end = (new, new_start, new_end) if old_start == old_end else (old, old_start, old_end)
            moved = 0
            while old_end + moved < stop and rows[start + moved] == rows[end + moved]:
                moved += 1
            old_start, old_end, new_start, new_end = (at + moved for at in (old_start, old_end, new_start, new_end))
            if not low or old_end < stop:
                break
            _, old_end, _, new_end = low.pop()
        low.append((old_start, old_end, new_start, new_end))
    return low[::-1]


def _common(old: Sequence[str], new: Sequence[str]) -> list[LineSpan]:
    """Return the line numbers (old, new) of the lines in a longest common subsequence."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    in_both = set(old[head : len(old) - tail]) & set(new[head : len(new) - tail])
    old_at = [at for at in range(head, len(old) - tail) if old[at] in in_both]
    new_at = [at for at in range(head, len(new) - tail) if new[at] in in_both]
    middle = _longest([old[at] for at in old_at], [new[at] for at in new_at])
    return [
        *((at, at) for at in range(head)),
        *((old_at[left], new_at[right]) for left, right in middle),
        *((len(old) - at, len(new) - at) for at in range(tail, 0, -1)),
    ]


def _longest(old: Sequence[str], new: Sequence[str]) -> list[LineSpan]:
    if len(old) * len(new) <= _MAX_CELLS:
        return _by_bits(old, new)
    pairs: list[LineSpan] = []
    left = right = 0
    for anchor in [*_anchors(old, new), (len(old), len(new))]:
        if (anchor[0] - left) * (anchor[1] - right) <= _MAX_CELLS:  # otherwise this part is one large change
            found = _by_bits(old[left : anchor[0]], new[right : anchor[1]])
            pairs += [(left + at, right + to) for at, to in found]
        pairs.append(anchor)
        left, right = anchor[0] + 1, anchor[1] + 1
    return pairs[:-1]


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[LineSpan]:
    """Return the longest sequence of lines that occur once in each text and have the same order (patience diff)."""
    once_new = {line for line, count in Counter(new).items() if count == 1}
    place = {line: at for at, line in enumerate(new) if line in once_new}
    counts = Counter(old)
    pairs = [(at, place[line]) for at, line in enumerate(old) if counts[line] == 1 and line in place]
    ends: list[int] = []  # by length, the lowest position in `new` at which a sequence of that length can end
    runs: list[int] = []
    for _, at in pairs:
        length = bisect_left(ends, at)
        ends[length : length + 1] = [at]
        runs.append(length)
    wanted = len(ends) - 1
    chosen: list[LineSpan] = []
    for pair, length in zip(reversed(pairs), reversed(runs), strict=True):
        if length == wanted:  # the last sequence of this length has the lowest position, so it precedes the chosen one
            chosen.append(pair)
            wanted -= 1
    return chosen[::-1]


def _by_bits(old: Sequence[str], new: Sequence[str]) -> list[LineSpan]:
    """Compute a longest common subsequence with bit operations.

    Each new line has a row of bits, one for each old line. For bit i of row j, take the longest common subsequence of
    the new lines up to j and the old lines before i. The bit is 0 if old line i makes this subsequence longer.
    """
    places: dict[str, int] = {}
    for at, line in enumerate(old):
        places[line] = places.get(line, 0) | 1 << at
    full = (1 << len(old)) - 1
    row = full
    rows: list[int] = []
    for line in new:
        found = row & places.get(line, 0)
        row = (row + found | row - found) & full
        rows.append(row)
    pairs: list[LineSpan] = []
    left, right = len(old), len(new)
    while left and right:
        if rows[right - 1] >> left - 1 & 1:
            left -= 1
        elif right > 1 and not rows[right - 2] >> left - 1 & 1:
            right -= 1
        else:
            left, right = left - 1, right - 1
            pairs.append((left, right))
    return pairs[::-1]
