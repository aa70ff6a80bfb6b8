"""Reading the file of an export or a backup: all of it is checked before anything of it is used."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TypeVar

from retentive.errors import Damaged
from retentive.storage.contract import Memory, Version
from retentive.transfer import lines
from retentive.transfer.archive_writer import BACKUP, EXPORT, MANIFEST, spool
from retentive.transfer.files import said
from retentive.transfer.replay import Standing
from retentive.transfer.tar import CHUNK, TarReader, shown
from retentive.values.text import TextCheck

T = TypeVar("T")
MAX_TEXT_BYTES = 2**30  # what a database can hold in one value; a text is taken into memory whole
_STORE_ID = r"memstore_[A-Za-z0-9_-]{1,119}"
_NAME = re.compile(
    rf"(?P<prefix>stores/{_STORE_ID}/)?(?P<part>store\.json|versions\.jsonl|memories\.jsonl|notes\.jsonl|jottings\.jsonl"
    r"|texts/(?P<text>[A-Za-z0-9_-]{1,128}))"
)
_ORDER = ("store.json", "texts", "versions.jsonl", "memories.jsonl", "notes.jsonl", "jottings.jsonl")


@dataclass(slots=True)
class Section:
    """What a file holds of one memory store. Its iterators read from the file; use one at a time."""

    prefix: str
    _spool: IO[bytes]
    header: lines.Header = field(init=False)
    _spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    _part: int = -1
    _last_text: str = ""

    @property
    def is_raw(self) -> bool:
        """Whether it is sealed, and holds what rested."""
        return self.header.seal is not None

    def versions(self) -> Iterator[tuple[Version, str | None]]:
        """The versions, oldest first, each with the id under which its text stands."""
        return self._lines("versions.jsonl", lines.parse_version)

    def memories(self) -> Iterator[tuple[Memory, str | None]]:
        """The present memories in the order of their paths, each with the id under which its text stands."""
        return self._lines("memories.jsonl", lines.parse_memory)

    def notes(self) -> Iterator[tuple[str, str, str]]:
        """Kind, key and value of the notes."""
        return self._lines("notes.jsonl", lines.parse_note)

    def jottings(self) -> Iterator[tuple[str, str, str]]:
        """Kind, key and value of the jottings."""
        return self._lines("jottings.jsonl", lines.parse_note)

    def begin(self, name: str, text: str | None) -> None:
        """Check that an entry stands where it should."""
        part = _ORDER.index("texts" if text is not None else name)
        if part < self._part or (part == self._part and (text is None or text <= self._last_text)):
            raise Damaged(f"the entry {shown(self.prefix + name)} stands in the wrong place, or twice")
        self._part, self._last_text = part, text or ""

    def keep(self, name: str, span: tuple[int, int]) -> None:
        """Note where a part was spooled."""
        self._spans[name] = span

    def read(self, name: str) -> bytes:
        """A small part."""
        start, size = self._span(name)
        self._spool.seek(start)
        return self._spool.read(size)

    def _lines(self, name: str, parse: Callable[[bytes], T]) -> Iterator[T]:
        if name not in self._spans and name in _ORDER[4:]:
            return
        at, left = self._span(name)
        while left:
            self._spool.seek(at)
            line = self._spool.readline(left)
            at, left = at + len(line), left - len(line)
            yield parse(line)

    def _span(self, name: str) -> tuple[int, int]:
        if name not in self._spans:
            raise Damaged(f"the file has no {shown(self.prefix + name)}")
        return self._spans[name]


@dataclass(frozen=True, slots=True)
class Listed:
    """What was found of an entry: the hash and size of its bytes, and whether they are a text."""

    digest: str
    size: int
    is_text: bool
    name: str

    def line(self) -> bytes:
        """As it is spooled."""
        return f"{self.digest} {self.size} {int(self.is_text)} {self.name}\n".encode()

    @classmethod
    def parse(cls, line: bytes) -> Listed:
        """What was spooled."""
        digest, size, is_text, name = line.decode().rstrip("\n").split(" ")
        return cls(digest, int(size), is_text == "1", name)


class Archive:
    """An export or a backup, found whole and unaltered when it was opened."""

    def __init__(self, raw: IO[bytes], spooled: IO[bytes], listed: IO[bytes]) -> None:
        self._raw = raw
        self._spool = spooled
        self._listed = listed
        self._manifest: tuple[int, int] | None = None
        self._sections: dict[str, Section] = {}
        self.is_backup = False
        self._read_all()
        self._compare()
        self._check()

    @property
    def sections(self) -> list[Section]:
        """The memory stores in it, in the order in which their texts come."""
        return list(self._sections.values())

    def texts(self) -> Iterator[tuple[str, str, bytes]]:
        """Prefix of the section, version id and bytes of every text, in the order of the file.

        Raises `Damaged` if the file was altered since it was opened.
        """
        self._listed.seek(0)
        tar = TarReader(self._raw)
        for name, size in tar.entries():
            found = _NAME.fullmatch(name)
            if name == MANIFEST:
                return
            known = Listed.parse(self._listed.readline())
            if found is None or found["text"] is None:
                continue
            data = tar.read(size) if (name, size) == (known.name, known.size) else b""
            if hashlib.sha256(data).hexdigest() != known.digest:
                raise Damaged(f"the file was altered while it was read: {shown(name)}")
            yield found["prefix"] or "", found["text"], data

    # -- the first time through ------------------------------------------------------------------------------

    def _read_all(self) -> None:
        tar = TarReader(self._raw)
        for number, (name, size) in enumerate(tar.entries()):
            if self._manifest is not None:
                raise Damaged("something follows the manifest")
            if number == 0:
                self._begin(name)
            span = self._take(tar, name, size)
            if name == MANIFEST:
                self._manifest = span

    def _begin(self, name: str) -> None:
        if name not in {EXPORT, BACKUP}:
            raise Damaged("the file is no export and no backup of retentive")
        self.is_backup = name == BACKUP

    def _take(self, tar: TarReader, name: str, size: int) -> tuple[int, int]:
        """Read an entry, spool it unless it is a text, and note what was found; where it was spooled."""
        section, part, text = self._place(name)
        if text is not None and size > MAX_TEXT_BYTES:
            raise Damaged(f"the entry {shown(name)} is larger than any text can be")
        start = self._spool.seek(0, 2)
        digest, check, is_text = hashlib.sha256(), TextCheck(), True
        while data := tar.read(CHUNK):
            digest.update(data)
            if text is None:
                self._spool.write(data)
            elif is_text:
                is_text = check.accepts(data)
        is_text = is_text and (text is None or check.accepts(b"", final=True))
        if section is not None:
            section.keep(part, (start, size))
        if name != MANIFEST:
            self._listed.write(Listed(digest.hexdigest(), size, is_text, name).line())
        return start, size

    def _place(self, name: str) -> tuple[Section | None, str, str | None]:
        """Which section an entry belongs to, as what, and the id of its version if it is a text."""
        if name in {EXPORT, BACKUP, MANIFEST}:
            if name in {EXPORT, BACKUP} and self._sections:
                raise Damaged(f"the entry {shown(name)} stands in the wrong place, or twice")
            if name != EXPORT:
                return None, name, None
            name = "store.json"
        found = _NAME.fullmatch(name)
        if found is None or bool(found["prefix"]) != self.is_backup:
            raise Damaged(f"the entry {shown(name)} does not belong into an export or backup")
        prefix, part, text = found["prefix"] or "", found["part"], found["text"]
        section = self._sections.get(prefix)
        if section is None:
            section = self._sections[prefix] = Section(prefix, self._spool)
        elif section is not next(reversed(self._sections.values())):
            raise Damaged(f"the entry {shown(name)} stands in the wrong place, or twice")
        section.begin(part, text)
        return section, part, text

    # -- is it what was written? -----------------------------------------------------------------------------

    def _compare(self) -> None:
        """Hold what was found against the manifest. Raises `Damaged`, naming the first entry that differs."""
        if self._manifest is None:
            raise Damaged("the file is cut off: its manifest is missing")
        at, left = self._manifest
        self._spool.seek(at)
        head = self._spool.readline(left)
        left -= len(head)
        self._listed.seek(0)
        count = 0
        for line in self._listed:
            known = Listed.parse(line)
            listed = self._spool.readline(left)
            left -= len(listed)
            if listed != f"{known.digest}  {known.name}\n".encode():
                raise Damaged(_difference(known, listed))
            count += 1
        if left:
            missing = self._spool.readline(left).decode("ascii", "replace").rstrip("\n")[66:]
            raise Damaged(f"the entry {shown(missing)} is missing")
        if head != f"# retentive {lines.FORMAT}: {count} entries\n".encode():
            self._read_about()  # which says so if a newer retentive wrote it
            raise Damaged("the manifest cannot be read")

    def _read_about(self) -> None:
        self._listed.seek(0)
        size = Listed.parse(self._listed.readline()).size
        self._spool.seek(0)  # the first entry
        given = lines.parse_json(self._spool.read(size), "the description of the file")
        try:
            lines.check_format(given)
        except (ValueError, TypeError, KeyError):
            raise Damaged("the description of the file cannot be read") from None

    # -- does it make sense? ---------------------------------------------------------------------------------

    def _check(self) -> None:
        self._read_about()
        for section in self._sections.values():
            section.header = lines.Header.parse(section.read("store.json"))
            if self.is_backup and section.prefix != f"stores/{section.header.id}/":
                raise Damaged(f"the memory store {section.header.id} stands under another's name")
        self._listed.seek(0)
        texts = (known for line in self._listed if "texts/" in (known := Listed.parse(line)).name)
        for section in self._sections.values():
            _SectionCheck(section).run(texts)
        if next(texts, None) is not None:
            raise Damaged("it has texts that no version has")


class _SectionCheck:
    """Whether the parts of a section fit together. Raises `Damaged`."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self._last: Version | None = None
        self._newest: dict[str, Version] = {}
        self._texts: dict[str, tuple[str, Listed]] = {}  # memory -> its latest text
        self._standing = Standing()

    def run(self, texts: Iterator[Listed]) -> None:
        """Go through versions, memories and notes; `texts` are those that are left in the file."""
        header, count = self._section.header, 0
        for version, text_of in self._section.versions():
            self._check_order(version)
            self._check_text(version, text_of, texts)
            self._standing.take(version)
            self._newest[version.memory_id] = self._last = version
            count += 1
        if count != header.versions:
            raise Damaged(f"it has {count} versions of {header.versions}")
        self._standing.check_history(header.revision)
        self._check_memories()
        for small in (self._section.notes, self._section.jottings):
            for _ in small():
                pass

    def _check_order(self, version: Version) -> None:
        last, header = self._last, self._section.header
        if version.revision > header.revision or (
            last is not None
            and not (
                last.id < version.id and last.created_at < version.created_at and last.revision <= version.revision
            )
        ):
            raise Damaged(f"version {version.id} is not later than the one before it")
        needs_seal = self._section.is_raw and version.redacted_at is None
        if (version.seal is not None) != needs_seal:
            raise Damaged(f"version {version.id} is not sealed as its memory store is")

    def _check_text(self, version: Version, text_of: str | None, texts: Iterator[Listed]) -> None:
        if version.redacted_at is not None or version.operation == "deleted":
            if text_of is not None:
                raise Damaged(f"version {version.id} has a text, and should have none")
            return
        if text_of == version.id:
            found = next(texts, None)
            if found is None or found.name != f"{self._section.prefix}texts/{version.id}":
                raise Damaged(f"the text of version {version.id} is missing")
            self._texts[version.memory_id] = version.id, found
        known = self._texts.get(version.memory_id)
        if known is None or known[0] != text_of:
            raise Damaged(f"the text of version {version.id} is missing")
        text = known[1]
        if not self._section.is_raw and (
            (text.digest, text.size) != (version.sha256, version.size_bytes) or not text.is_text
        ):
            raise Damaged(f"the text of version {version.id} is not the one that was recorded")

    def _check_memories(self) -> None:
        header, count, size, path = self._section.header, 0, 0, ""
        for memory, text_of in self._section.memories():
            version = self._newest.get(memory.id)
            if (
                version is None
                or version.operation == "deleted"
                or _facts(version)
                != (memory.version_id, memory.path, memory.size_bytes, memory.sha256, memory.updated_at)
                or memory.created_at > memory.updated_at
                or text_of != self._texts[memory.id][0]
                or memory.path <= path
            ):
                raise Damaged(f"the memory {memory.id} is not what its newest version says")
            self._standing.check_present(memory)
            path, count, size = memory.path, count + 1, size + memory.size_bytes
        if (count, size) != (header.memories, header.size_bytes):
            raise Damaged(f"it has {count} memories of {size} bytes, and should have {header.memories}")


@contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """The export or backup at a path. Raises `NotFound`, `Damaged` for one that is not whole, and `UnknownSchema`."""
    with said(), open(path, "rb") as raw, spool() as spooled, spool() as listed:
        yield Archive(raw, spooled, listed)


def _facts(version: Version) -> tuple[object, ...]:
    return version.id, version.path, version.size_bytes, version.sha256, version.created_at


def _difference(known: Listed, listed: bytes) -> str:
    name = listed.decode("ascii", "replace").rstrip("\n")[66:]
    if name == known.name:
        return f"the entry {shown(name)} was altered"
    if not listed:
        return f"the entry {shown(known.name)} is not in the manifest"
    return f"the entry {shown(name)} is missing, or another stands before it: {shown(known.name)}"
