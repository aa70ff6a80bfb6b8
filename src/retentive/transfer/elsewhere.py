"""Reads exports of other products, and imports them: one memory for each conversation, user or entity.

One JSON value is loaded at a time, so a large export needs little memory. Errors name the place, and are raised before
anything is written. A text depends on the export alone, and the end of its path on the id of the conversation there.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import IO, Any, NamedTuple

from retentive.errors import InvalidInput, TooLarge
from retentive.storage.disk import expanded
from retentive.store import MemoryStore, core_of
from retentive.transfer.import_files import FROM, MAX_FILE_BYTES, ImportOutcome, Source, fail, import_files, key_of

MAX_EXPORT_BYTES = 2 * 1024**3  # unpacked; the texts are in a temporary file until all are read
_CHUNK = 1024 * 1024
_SPACE, _ITEM, _END = map(re.compile, (r"\s*", r"\s*[\[,]\s*", r"\s*\[?\s*\]\s*"))
NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_TITLE_CHARS, _NAME_BYTES = 200, 80
_MS = 1e11  # larger numbers are milliseconds: as seconds, they are after the year 5138


class Incoming(NamedTuple):
    """Conversation, user or entity of another product, with the same `id` in every export. The folder may be the year.

    If the id is None, `title` is the path of a file, which becomes a memory as it is.
    """

    folder: str
    title: str
    id: str | None
    at: datetime | None
    pieces: Sequence[str]


@dataclass(frozen=True, slots=True)
class Node:
    """JSON value of an export, and its place, which errors name. A value of the wrong type raises `InvalidInput`."""

    value: Any
    place: str

    def error(self, expected: str) -> InvalidInput:
        """Return an error that says what would be right at this place."""
        return InvalidInput(f"{NOT_TEXT.sub('?', self.place)}: expected {expected}; nothing was imported")

    def _of(self, kind: type, expected: str) -> Any:
        if not isinstance(self.value, kind):
            raise self.error(expected)
        return self.value

    def object(self) -> Mapping[str, Any]:
        """Return the fields of an object."""
        return self._of(dict, "an object")  # type: ignore[no-any-return]

    def __contains__(self, name: str) -> bool:
        return name in self.object()

    def __getitem__(self, name: str) -> Node:
        value = None if self.value is None else self.object().get(name)
        return Node(value, f"{self.place}.{name[:60]}")

    def items(self) -> list[Node]:
        """Return the items of a list, or none if there is no list."""
        rows = [] if self.value is None else self._of(list, "a list")
        return [Node(row, f"{self.place}[{number}]") for number, row in enumerate(rows)]

    def text(self, default: str | None = "") -> str:
        """Return a string. What no memory can contain becomes U+FFFD. Without a default, it must be there."""
        if self.value is None and default is not None:
            return default
        return NOT_TEXT.sub("\ufffd", self._of(str, "a string"))

    def parsed(self) -> Node:
        """Return the JSON value that a string contains."""
        try:
            return Node(json.loads(self.text()) if self.value else None, self.place)
        except (ValueError, RecursionError):
            raise self.error("a string with JSON") from None

    def time(self) -> datetime | None:
        """Return a time, given as ISO 8601 or as seconds or milliseconds since 1970."""
        if self.value is None or self.value == "":
            return None
        try:
            if isinstance(self.value, str):
                at = datetime.fromisoformat(self.value)
                return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
            return datetime.fromtimestamp(self.value / (1_000 if self.value > _MS else 1), UTC)
        except (ValueError, TypeError, OverflowError, OSError):
            raise self.error("a time") from None


def documents(path: str, wanted: str) -> Iterator[Node]:
    """Return the items of the JSON arrays, and the values that are no arrays, of the files of an export."""
    return (node for name, raw in members(path, wanted) for node in _values(name, raw))


def _values(name: str, raw: IO[bytes]) -> Iterator[Node]:
    decode, text, line, number, is_array = codecs.getincrementaldecoder("utf-8-sig")().decode, "", 1, 0, False
    while True:
        with reading(f"{name}: line {line + text.count(chr(10))}"):
            data = raw.read(max(_CHUNK, len(text)))
            text, at = text + decode(data, not data), 0
        is_array = is_array if number else text.lstrip()[:1] == "["
        start, end = (_ITEM, _END) if is_array else (_SPACE, _SPACE)
        while True:
            begin = found.end() if (found := start.match(text, at)) else at
            try:
                value, after = json.JSONDecoder().raw_decode(text, begin)
            except (ValueError, RecursionError) as caught:  # perhaps it is not read to its end
                error = caught
                break
            line += text.count("\n", at, begin)
            yield Node(value, f"{name}[{number}]" if is_array else f"{name}: line {line}")
            line += text.count("\n", begin, after)
            number, at = number + 1, after
        text, rest = text[at:], getattr(error, "pos", at) - at
        if not data and (number or is_array) and end.fullmatch(text):
            return
        if not data or isinstance(error, RecursionError) or len(text) > MAX_FILE_BYTES:
            why = f"not JSON ({getattr(error, 'msg', error)}), or larger than {MAX_FILE_BYTES >> 20} MB"
            place = f"{name}: line {line + text.count(chr(10), 0, rest)}"
            raise InvalidInput(f"{place}: {why}; nothing was imported") from None


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Convert errors of zip files and of the encoding to `InvalidInput`."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        why = "not UTF-8 from here on" if isinstance(error, UnicodeDecodeError) else f"the zip file is broken ({error})"
        raise InvalidInput(f"{place}: {why}; nothing was imported") from None


def members(path: str, wanted: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of an export that match: of a directory without links, of a zip file, or the one file it is."""
    path = expanded(path)
    name, opened = os.path.basename(path), dict[str, Callable[[], Any]]()
    if os.path.isdir(path):
        for directory, _, names in os.walk(path, onerror=fail):
            for full in (os.path.join(directory, name) for name in names):
                if os.path.isfile(full) and not os.path.islink(full):
                    opened[os.path.relpath(full, path).replace(os.sep, "/")] = partial(open, full, "rb")
    elif zipfile.is_zipfile(path):
        with reading(name):
            archive = zipfile.ZipFile(path)
        files = [each for each in archive.infolist() if re.fullmatch(wanted, each.filename)]
        if (size := sum(each.file_size for each in files)) > MAX_EXPORT_BYTES:
            raise TooLarge(f"the export has {size} bytes unpacked; at most {MAX_EXPORT_BYTES} are read")
        opened = {each.filename: partial(archive.open, each) for each in files}
    else:
        opened, wanted = {name: partial(open, path, "rb")}, ".*"
    chosen = sorted(filter(re.compile(wanted).fullmatch, opened))
    if not chosen:
        raise InvalidInput("no file in it belongs to an export of this format; nothing was imported")
    for name in chosen:
        with reading(name):
            raw = opened[name]()
        with raw:
            yield name, raw


def _slug(title: str) -> str:
    letters = (each if unicodedata.category(each)[0] in "LMN" else " " for each in title[:_TITLE_CHARS].lower())
    name = unicodedata.normalize("NFC", "-".join("".join(letters).split()))
    return name.encode()[:_NAME_BYTES].decode(errors="ignore").strip("-")


def _memories(kind: str, item: Incoming, max_bytes: int) -> Iterator[tuple[str, str, str]]:
    """Yield the key, path and text of each memory of an item. Only the last ones change if the item grows."""
    if item.id is None:
        yield "", f"{kind}/{item.title}", item.pieces[0]
        return
    key = sha256(f"{kind} {item.id}".encode()).hexdigest()[:10]
    title = " ".join(item.title.split())[:_TITLE_CHARS] or item.id[:_TITLE_CHARS]
    facts = {"source": f"{FROM}{kind}", "id": item.id[:_TITLE_CHARS], "created": item.at and f"{item.at:%FT%TZ}"}
    front = "".join(f"{name}: {json.dumps(fact, ensure_ascii=False)}\n" for name, fact in facts.items() if fact)
    folder = item.folder or (f"{item.at:%Y}" if item.at else "")
    path = "".join(f"{slug}/" for slug in (kind, _slug(folder)) if slug) + f"{_slug(item.title)}-".lstrip("-")
    room = max(max_bytes * 9 // 10 - len(front.encode()) - 4 * _TITLE_CHARS, 1_000) if max_bytes else 0
    for number, text in enumerate(_parts(item.pieces, room), start=1):
        part, end = ("", key) if number == 1 else (f" (part {number})", f"{key}-{number}")
        yield end, f"{path}{end}.md", f"---\n{front}---\n\n# {title}{part}\n\n{text.rstrip()}\n"


def _parts(pieces: Sequence[str], room: int) -> Iterator[str]:
    """Join the pieces to texts of at most `room` bytes (0: any number). A longer piece is cut, after a line if any."""
    text = bytearray()
    for piece in pieces:
        data = piece.encode()
        if room and text and len(text) + len(data) > room:
            yield text.decode()
            text.clear()
        text += data
        while room and len(text) > room:
            end = text.rfind(b"\n", 0, room) + 1 or len(text[:room].decode(errors="ignore").encode())
            yield text[:end].decode()
            del text[:end]
    if text:
        yield text.decode()


def import_from(store: MemoryStore, kind: str, found: Iterable[Incoming], under: str, **options: Any) -> ImportOutcome:
    """Import what a function of `formats.FORMATS` found, as `import_files` does with `options`.

    The source in the provenance is `import:KIND`. What an earlier import made is found by the end of its path.
    """
    under, limit = core_of(store).parsed(under).text, store.settings().max_memory_bytes
    known = {key_of(each.path): each.path for each in store.memories(under)}

    def items() -> Iterator[tuple[str, Callable[[], bytes]]]:
        for incoming in found:
            for key, name, text in _memories(kind, incoming, limit):
                place = known.get(key, f"{under}/{name}").removeprefix(f"{under}/")
                yield place, partial(text.encode, "utf-8", "surrogateescape")

    return import_files(store, Source(items), under=under, source=f"{FROM}{kind}", **options)
