"""Reference model of the memory tool: a dict from path to text.

It is written from the specification and uses no code of `retentive`. It is slow, and the dict is its only state between
commands. Tests compare replies with its replies.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from urllib.parse import unquote

from .shape import Expected, InvalidCommand, read_shape

DIRECTORY_HEADER = (
    "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:"
)


def shown(text: str) -> str:
    return text[:2_000] + "…" if len(text) > 2_000 else text


# -- paths -------------------------------------------------------------------------------------------------------


def unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs") or char in "\u2028\u2029"


def dangerous(segment: str) -> bool:
    """Return whether any decoding of a segment is `.` or `..`, or contains `/`, a backslash or a control character.

    Some file systems ignore joiners, so a decoding can also leave them out.
    """
    seen: set[str] = set()
    todo = {segment}
    while todo:
        form = todo.pop()
        seen.add(form)
        if form in (".", "..") or any(char in "/\\" or unicodedata.category(char) == "Cc" for char in form):
            return True
        bare = form.replace("\u200c", "").replace("\u200d", "")
        todo |= {unquote(form, errors="replace"), unicodedata.normalize("NFKC", form), bare} - seen
    return False


def reserved(segment: str) -> bool:
    bare = segment.casefold().replace("\u200c", "").replace("\u200d", "")
    return bare in (".git", ".hg", ".svn", ".jj", ".obsidian", ".trash", ".stversions")


def spelled(segment: str) -> str:
    """Return a segment without its joiners that stand between two other characters."""
    return re.sub("(?<=[^\u200c\u200d])[\u200c\u200d](?=[^\u200c\u200d])", "", segment)


def too_long(path: str) -> bool:
    names = path.split("/")[2:]
    below = "/".join(names)
    return len(names) > 20 or len(below.encode()) > 1_024 or any(len(name.encode()) > 255 for name in names)


def canonical(written: str) -> str | None:
    """Return the canonical path, or None if it is rejected."""
    text = unicodedata.normalize("NFC", written)
    if text != "/memories" and not text.startswith("/memories/"):
        return None
    names = [name for name in text.split("/")[2:] if name]
    if any(unseen(char) for name in names for char in spelled(name)):
        return None
    if any(dangerous(name) or reserved(name) for name in names):
        return None
    path = "/".join(["/memories", *names])
    return None if too_long(path) else path


def leads_above(written: str) -> bool:
    """Return whether a `..` in a path below /memories leads above /memories."""
    depth = 0
    for name in unicodedata.normalize("NFC", written).split("/")[2:]:
        depth += {"": 0, ".": 0, "..": -1}.get(name, 1)
        if depth < 0:
            return True
    return False


def refused(written: str) -> InvalidCommand:
    text = unicodedata.normalize("NFC", written)
    before, after = "Error: Invalid path ", ": "
    if text != "/memories" and not text.startswith("/memories/"):
        before, after = "Error: Path must start with /memories, got: ", ""
    elif leads_above(written):
        before, after = "Error: Path ", " would escape /memories directory"
    if len(written) > 2_000 or any(unseen(char) for char in written):
        # The specification does not say how truncation and escapes combine after the first escape.
        clear = re.match(r"[ -~]{0,100}", written)
        return InvalidCommand(None, start=before + (clear.group() if clear else ""))
    return (
        InvalidCommand(None, start=f"{before}{written}: ")
        if after == ": "
        else InvalidCommand(f"{before}{written}{after}")
    )


def parsed(written: str) -> str:
    path = canonical(written)
    if path is None:
        raise refused(written)
    return path


# -- text --------------------------------------------------------------------------------------------------------


def kept_lines(text: str) -> list[str]:
    """Return the lines of a text with their newlines. Only the last line may lack a newline."""
    parts = text.split("\n")
    last = parts.pop()
    return [part + "\n" for part in parts] + ([last] if last else [])


def numbered(lines: list[str], first: int) -> list[str]:
    return [f"{str(first + at).rjust(6)}\t{line.removesuffix(chr(10))}" for at, line in enumerate(lines)]


def human(size: int) -> str:
    if size < 1_024:
        return f"{size}B"
    for power, unit in enumerate("KMGT", 1):
        text = f"{size / 1_024**power:.1f}"
        if float(text) < 1_024 or unit == "T":
            return text + unit
    raise AssertionError


def page(text: str, asked: tuple[int, int] | None, limit: int) -> list[str]:
    """Return the rows of a view, including the notice."""
    lines = kept_lines(text)
    if not lines:
        return []
    first, last = asked or (1, -1)
    if first < 1 or first > len(lines) or (last < first and last != -1):
        raise InvalidCommand(
            f"Error: Invalid `view_range` parameter: [{first}, {last}]. "
            f"It should be within the range of lines of the file: [1, {len(lines)}]"
        )
    end = len(lines) if last == -1 else min(last, len(lines))
    wanted = lines[first - 1 : end]
    if limit == 0 or sum(map(len, wanted)) <= limit or (asked and first == last):
        return numbered(wanted, first)
    count = 0
    while sum(map(len, wanted[: count + 1])) <= limit:
        count += 1
    line = wanted[0].removesuffix("\n")
    if count == 0 and len(line) > limit:
        notice = f"[Truncated: line {first} of {len(lines)} is {len(line)} characters long, {limit} shown. "
        notice += f"View it whole with view_range [{first}, {first}]."
        notice += f" View the rest with view_range [{first + 1}, {last}]." if first < end else ""
        return [*numbered([line[:limit]], first), notice + "]"]
    count = max(count, 1)  # a first line that exceeds the limit only by its newline is shown in full
    rows = numbered(wanted[:count], first)
    if count == len(wanted):
        return rows
    upto = first + count - 1
    notice = f"[Truncated: lines {first} to {upto} of {len(lines)} shown. "
    return [*rows, notice + f"View the rest with view_range [{upto + 1}, {last}].]"]


def snippet(text: str, at: int, new: str, limit: int) -> list[str]:
    lines = kept_lines(text)
    if not lines:
        return []
    owner = [number for number, line in enumerate(lines, 1) for _ in line]  # line number of every character
    first = owner[at] if at < len(text) else len(lines)
    last = owner[at + len(new) - 1] if new else first
    first, last = max(first - 2, 1), min(last + 2, len(lines))
    part = lines[first - 1 : last]
    return [] if limit and sum(map(len, part)) > limit else numbered(part, first)


def find_all(text: str, old: str) -> list[int]:
    return [at for at in range(len(text)) if text.startswith(old, at)]


def inserted(text: str, after: int, new: str) -> str:
    lines = kept_lines(text)
    lines.insert(after, new)
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


# -- the tool ----------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """One memory store."""

    view_chars: int = 16_000
    list_rows: int = 1_000
    max_memory_bytes: int = 102_400
    max_memories: int = 10_000
    max_store_bytes: int = 268_435_456
    create_overwrites: bool = False
    tree: dict[str, str] = field(default_factory=dict)
    changes: int = 0

    def execute(self, given: object) -> Expected:
        """Run a raw command and return the expected reply."""
        try:
            return Expected(self._answer(given))
        except InvalidCommand as wrong:
            return wrong.expected

    def _answer(self, given: object) -> str:
        name, values = read_shape(given)
        paths = {key: parsed(str(value)) for key, value in values.items() if key.endswith("path")}
        if name == "create" and str(values["path"]).endswith("/") and paths["path"] != "/memories":
            raise refused(str(values["path"]))
        answer: str = getattr(self, name)(values, paths)
        return answer

    def below(self, path: str) -> list[str]:
        return sorted((one for one in self.tree if one.startswith(path + "/")), key=str.encode)

    def exists(self, path: str) -> bool:
        return path == "/memories" or path in self.tree or bool(self.below(path))

    def file_above(self, path: str) -> str | None:
        return next((one for one in self.tree if path.startswith(one + "/")), None)

    def put(self, path: str, written: str, text: str) -> list[str]:
        """Store a text, and return the lines about limits in the reply."""
        held, size = self.tree.get(path), len(text.encode())
        if text == held:
            return []
        before = 0 if held is None else len(held.encode())
        if held is None or size >= before:
            total = self.size("/memories/") - before + size
            if size > self.max_memory_bytes > 0:
                raise InvalidCommand(None, holds=(str(self.max_memory_bytes), str(size)))
            if held is None and len(self.tree) >= self.max_memories > 0:
                raise InvalidCommand(None, holds=(str(self.max_memories), str(len(self.tree))))
            if total > self.max_store_bytes > 0:
                raise InvalidCommand(None, holds=(str(self.max_store_bytes), str(total)))
        self.tree[path] = text
        self.changes += 1
        return self.near(written, size, is_new=held is None) if held is None or size > before else []

    def near(self, written: str, size: int, *, is_new: bool) -> list[str]:
        memories, total = len(self.tree), self.size("/memories/")
        notes = []
        if size * 10 >= self.max_memory_bytes * 8 > 0:
            notes.append(f"Note: {written} holds {size} of at most {self.max_memory_bytes} bytes.")
        if is_new and memories * 10 >= self.max_memories * 8 > 0:
            notes.append(f"Note: The memory store holds {memories} of at most {self.max_memories} memories.")
        if total * 10 >= self.max_store_bytes * 8 > 0:
            notes.append(f"Note: The memory store holds {total} of at most {self.max_store_bytes} bytes.")
        return notes

    def view(self, values: dict[str, object], paths: dict[str, str]) -> str:
        path, written = paths["path"], shown(str(values["path"]))
        if path in self.tree:
            text = self.tree[path]
            if len(kept_lines(text)) > 999_999:
                raise InvalidCommand(f"File {written} exceeds maximum line limit of 999,999 lines.")
            asked = values.get("view_range")
            rows = page(text, (asked[0], asked[1]) if isinstance(asked, tuple) else None, self.view_chars)
            return "\n".join([f"Here's the content of {written} with line numbers:", *rows])
        if not self.exists(path):
            raise InvalidCommand(f"The path {written} does not exist. Please provide a valid path.")
        return self.listing(path)

    def listing(self, path: str) -> str:
        rows: set[str] = set()
        for memory in self.below(path):
            names = memory[len(path) + 1 :].split("/")
            visible = 0
            while (
                visible < min(2, len(names)) and not names[visible].startswith(".") and names[visible] != "node_modules"
            ):
                visible += 1
                row = "/".join(names[:visible])
                rows.add(row if visible == len(names) else row + "/")
        ordered = sorted(rows, key=str.encode)
        kept = ordered[: self.list_rows] if self.list_rows else ordered
        lines = [
            DIRECTORY_HEADER.format(path),
            f"{human(self.size(path + '/'))}\t{path}",
            *[f"{human(self.size(f'{path}/{row}'))}\t{path}/{row}" for row in kept],
        ]
        if len(kept) < len(ordered):
            lines.append(
                f"[Truncated: {len(kept)} of {len(ordered)} entries shown. View a directory below to see the rest.]"
            )
        return "\n".join(lines)

    def size(self, row: str) -> int:
        """Return the size of a memory.

        The size of a directory, given with a trailing slash, is the sum of its memories.
        """
        return sum(
            len(text.encode())
            for path, text in self.tree.items()
            if path == row or (row.endswith("/") and path.startswith(row))
        )

    def create(self, values: dict[str, object], paths: dict[str, str]) -> str:
        path, written = paths["path"], shown(str(values["path"]))
        if self.exists(path) and not (self.create_overwrites and path in self.tree):
            raise InvalidCommand(f"Error: File {written} already exists")
        if above := self.file_above(path):
            raise InvalidCommand(f"Error: The path {above} is a file, not a directory")
        notes = self.put(path, written, str(values["file_text"]))
        return "\n".join([f"File created successfully at: {written}", *notes])

    def str_replace(self, values: dict[str, object], paths: dict[str, str]) -> str:
        path, written = paths["path"], shown(str(values["path"]))
        old, new = str(values["old_str"]), str(values.get("new_str", ""))
        if path not in self.tree:
            raise InvalidCommand(f"Error: The path {written} does not exist. Please provide a valid path.")
        if not old:
            raise InvalidCommand("No replacement was performed, old_str must not be empty.")
        text, echo = self.tree[path], shown(old)
        finds = find_all(text, old)
        if not finds:
            raise InvalidCommand(
                f"No replacement was performed, old_str `{echo}` did not appear verbatim in {written}."
            )
        if len(finds) > 1:
            lines = sorted({text[:at].count("\n") + 1 for at in finds})
            listed = ", ".join(map(str, lines[:100])) + (", ..." if len(lines) > 100 else "")
            raise InvalidCommand(
                f"No replacement was performed. Multiple occurrences of old_str `{echo}` in lines: {listed}. "
                "Please ensure it is unique"
            )
        at = finds[0]
        text = text[:at] + new + text[at + len(old) :]
        notes = self.put(path, written, text)
        rows = snippet(text, at, new, self.view_chars)
        if not rows:
            return "\n".join(["The memory file has been edited.", *notes])
        head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return "\n".join([head, *rows, *notes])

    def insert(self, values: dict[str, object], paths: dict[str, str]) -> str:
        path, written = paths["path"], shown(str(values["path"]))
        if path not in self.tree:
            raise InvalidCommand(f"Error: The path {written} does not exist")
        line = values["insert_line"]
        assert isinstance(line, int)
        count = len(kept_lines(self.tree[path]))
        if not 0 <= line <= count:
            raise InvalidCommand(
                f"Error: Invalid `insert_line` parameter: {line}. "
                f"It should be within the range of lines of the file: [0, {count}]"
            )
        notes = self.put(path, written, inserted(self.tree[path], line, str(values["insert_text"])))
        return "\n".join([f"The file {written} has been edited.", *notes])

    def delete(self, values: dict[str, object], paths: dict[str, str]) -> str:
        path, written = paths["path"], shown(str(values["path"]))
        if path == "/memories":
            raise InvalidCommand("Error: Cannot delete the /memories directory itself")
        if not self.exists(path):
            raise InvalidCommand(f"Error: The path {written} does not exist")
        for memory in [path] if path in self.tree else self.below(path):
            del self.tree[memory]
            self.changes += 1
        return f"Successfully deleted {written}"

    def rename(self, values: dict[str, object], paths: dict[str, str]) -> str:
        old, new = paths["old_path"], paths["new_path"]
        old_written, new_written = shown(str(values["old_path"])), shown(str(values["new_path"]))
        if old == "/memories":
            raise InvalidCommand("Error: Cannot rename the /memories directory itself")
        if not self.exists(old):
            raise InvalidCommand(f"Error: The path {old_written} does not exist")
        if old in self.tree and str(values["new_path"]).endswith("/") and new != "/memories":
            raise refused(str(values["new_path"]))
        if self.exists(new):
            raise InvalidCommand(f"Error: The destination {new_written} already exists")
        if old not in self.tree and new.startswith(old + "/"):
            raise InvalidCommand(f"Error: The directory {old_written} cannot be moved into itself")
        if above := self.file_above(new):
            raise InvalidCommand(f"Error: The path {above} is a file, not a directory")
        moves = {one: new + one[len(old) :] for one in ([old] if old in self.tree else self.below(old))}
        if any(too_long(target) for target in moves.values()):
            raise refused(str(values["new_path"]))
        for source, target in moves.items():
            self.tree[target] = self.tree.pop(source)
            self.changes += 1
        return f"Successfully renamed {old_written} to {new_written}"
