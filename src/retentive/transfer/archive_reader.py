"""Reads export and backup files. A file is verified completely before anything in it is used."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, NamedTuple, TypeAlias, TypeVar

from retentive.errors import Damaged, InvalidInput, TooLarge
from retentive.storage.contract import Memory, Version
from retentive.storage.disk import expanded
from retentive.transfer import lines
from retentive.transfer.archive_writer import BACKUP, EXPORT, MANIFEST, RECORDS, SIDE_RECORDS, spool
from retentive.transfer.contents import Record
from retentive.transfer.files import mapped_os_errors
from retentive.transfer.replay import Replay
from retentive.transfer.tar import CHUNK, TarReader, shown
from retentive.values.text import TextCheck

T = TypeVar("T")
ArchiveText: TypeAlias = tuple[str, str, bytes]
"""Text in a file: the prefix of its section, the id of its version, and its bytes."""
MAX_TEXT_BYTES = 2**30  # the limit of a database value; each text is loaded into memory
_STORE_ID = r"memstore_[A-Za-z0-9_-]{1,119}"
_NAME = re.compile(
    rf"(?P<prefix>stores/{_STORE_ID}/)?(?P<part>store\.json|versions\.jsonl|memories\.jsonl"
    rf"|{re.escape(RECORDS)}|{re.escape(SIDE_RECORDS)}|texts/(?P<text>[A-Za-z0-9_-]{{1,128}}))"
)
_ORDER = ("store.json", "texts", "versions.jsonl", "memories.jsonl", RECORDS, SIDE_RECORDS)
_OPTIONAL = {RECORDS, SIDE_RECORDS}


@dataclass(slots=True)
class Section:
    """Section of a file. A section contains one memory store.

    Its iterators share a position in the file, so use only one of them at a time.
    """

    prefix: str
    _spool: IO[bytes]
    header: lines.Header = field(init=False)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    _part: int = -1
    _last_text: str = ""

    @property
    def is_raw(self) -> bool:
        """True if the memory store is encrypted and the file contains its texts in encrypted form."""
        return self.header.seal is not None

    def versions(self) -> Iterator[tuple[Version, str | None]]:
        """Yield the versions, oldest first.

        With each version, yield the id under which its text is stored. If consecutive versions of a memory have the
        same text, the text is stored only under the id of the first of them.
        """
        return self._lines("versions.jsonl", lines.parse_version)

    def memories(self) -> Iterator[tuple[Memory, str | None]]:
        """Yield the current memories, sorted by path.

        With each memory, yield the id of the version under which the text of the memory is stored.
        """
        return self._lines("memories.jsonl", lines.parse_memory)

    def records(self, part: str) -> Iterator[Record]:
        """Yield the records (`part` is `RECORDS`) or the side records (`part` is `SIDE_RECORDS`)."""
        return self._lines(part, lines.parse_record)

    def begin(self, name: str, text: str | None) -> None:
        """Register the start of an entry of this section. Raises `Damaged` if the entry is out of order or repeated."""
        part = _ORDER.index("texts" if text is not None else name)
        if part < self._part or (part == self._part and (text is None or text <= self._last_text)):
            raise _misplaced(self.prefix + name)
        self._part, self._last_text = part, text or ""

    def read_header(self) -> None:
        """Parse the description of the memory store. Raises `Damaged` or `UnknownSchema`."""
        start, size = self._span("store.json")
        self._spool.seek(start)
        self.header = lines.parse_header(self._spool.read(size))

    def _lines(self, name: str, parse: Callable[[bytes], T]) -> Iterator[T]:
        if name not in self.spans and name in _OPTIONAL:
            return
        position, left = self._span(name)
        while left:
            self._spool.seek(position)
            line = self._spool.readline(left)
            position, left = position + len(line), left - len(line)
            yield parse(line)

    def _span(self, name: str) -> tuple[int, int]:
        if name not in self.spans:
            raise Damaged(f"the entry {shown(self.prefix + name)} is missing in the file")
        return self.spans[name]


class EntryFacts(NamedTuple):
    """Name, hash and size of an entry. `is_text` is True if its bytes are valid as the text of a memory."""

    digest: str
    size: int
    is_text: bool
    name: str

    @classmethod
    def parse(cls, line: bytes) -> EntryFacts:
        """Parse a line of the temporary file that lists the facts of all entries."""
        digest, size, is_text, name = line.decode().rstrip("\n").split(" ")
        return cls(digest, int(size), is_text == "True", name)


class Archive:
    """Export or backup. Opening it verifies that the file is complete and unmodified.

    Raises `TooLarge` if a text has more than `max_text_bytes`, or if the file has more than `max_bytes` when
    decompressed.
    """

    def __init__(
        self,
        raw: IO[bytes],
        spooled: IO[bytes],
        facts: IO[bytes],
        *,
        max_bytes: int | None = None,
        max_text_bytes: int | None = None,
    ) -> None:
        self.raw = raw
        self._max_bytes = max_bytes
        self._max_text_bytes = max_text_bytes
        self._spool = spooled
        self._facts = facts
        self._manifest: tuple[int, int] | None = None
        self._sections: dict[str, Section] = {}
        self.is_backup = False
        self._read_all()
        self._compare()
        self._check()

    @property
    def sections(self) -> list[Section]:
        """Memory stores in the file, in the order of the file."""
        return list(self._sections.values())

    def exported(self) -> Section:
        """Return the memory store in an export.

        Raises `InvalidInput` if the file is a backup or has encrypted texts.
        """
        if self.is_backup:
            raise InvalidInput("the file is a backup, not an export; restore it with `retentive restore-backup`")
        (section,) = self.sections
        if section.is_raw:
            raise InvalidInput(
                "the memory store in the file is encrypted; export it again from a location opened with keys"
            )
        return section

    def texts(self) -> Iterator[ArchiveText]:
        """Yield every text, in the order of the file. Raises `Damaged` if the file was modified after it was opened."""
        self._facts.seek(0)
        tar = TarReader(self.raw)
        for name, size in tar.entries():
            found = _NAME.fullmatch(name)
            if name == MANIFEST:
                return
            known = EntryFacts.parse(self._facts.readline())
            if found is None or found["text"] is None:
                continue
            data = tar.read(size) if (name, size) == (known.name, known.size) else b""
            if hashlib.sha256(data).hexdigest() != known.digest:
                raise Damaged(f"the file was modified while it was read: {shown(name)}")
            yield found["prefix"] or "", found["text"], data

    def _read_all(self) -> None:
        tar = TarReader(self.raw, max_bytes=self._max_bytes)
        for number, (name, size) in enumerate(tar.entries()):
            if self._manifest is not None:
                raise Damaged("the file has entries after the manifest")
            if number == 0:
                if name not in {EXPORT, BACKUP}:
                    raise Damaged("the file is not an export or a backup of retentive")
                self.is_backup = name == BACKUP
            span = self._take(tar, name, size)
            if name == MANIFEST:
                self._manifest = span

    def _take(self, tar: TarReader, name: str, size: int) -> tuple[int, int]:
        """Read an entry and store its facts. Copy it to a temporary file unless it is a text.

        Returns the position and the size of the copy.
        """
        section, part, text = self._section_of(name)
        if text is not None and size > MAX_TEXT_BYTES:
            raise Damaged(f"the entry {shown(name)} is larger than {MAX_TEXT_BYTES} bytes")
        if text is not None and self._max_text_bytes is not None and size > self._max_text_bytes:
            raise TooLarge(f"the archive has a text of more than {self._max_text_bytes} bytes")
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
            section.spans[part] = start, size
        if name != MANIFEST:
            self._facts.write(f"{digest.hexdigest()} {size} {is_text} {name}\n".encode())
        return start, size

    def _section_of(self, name: str) -> tuple[Section | None, str, str | None]:
        """Return the section of an entry, the part of the section, and the id of the version if the entry is a text."""
        if name in {EXPORT, BACKUP, MANIFEST}:
            if name in {EXPORT, BACKUP} and self._sections:
                raise _misplaced(name)
            if name != EXPORT:
                return None, name, None
            name = "store.json"
        found = _NAME.fullmatch(name)
        if found is None or bool(found["prefix"]) != self.is_backup:
            raise Damaged(f"the entry {shown(name)} does not belong in an export or backup")
        prefix, part, text = found["prefix"] or "", found["part"], found["text"]
        section = self._sections.get(prefix)
        if section is None:
            section = self._sections[prefix] = Section(prefix, self._spool)
        elif section is not next(reversed(self._sections.values())):
            raise _misplaced(name)
        section.begin(part, text)
        return section, part, text

    def _compare(self) -> None:
        """Compare the entries with the manifest. Raises `Damaged` with the name of the first entry that differs."""
        if self._manifest is None:
            raise Damaged("the file is truncated: its manifest is missing")
        position, left = self._manifest
        self._spool.seek(position)
        head = self._spool.readline(left)
        left -= len(head)
        self._facts.seek(0)
        count = 0
        for line in self._facts:
            known = EntryFacts.parse(line)
            listed = self._spool.readline(left)
            left -= len(listed)
            if listed != f"{known.digest}  {known.name}\n".encode():
                raise Damaged(_difference(known, listed))
            count += 1
        if left:
            missing = self._spool.readline(left).decode("ascii", "replace").rstrip("\n")[66:]
            raise Damaged(f"the entry {shown(missing)} is missing in the file")
        if head != f"# retentive {lines.FORMAT}: {count} entries\n".encode():
            self._read_about()  # raises `UnknownSchema` if the format of the file is newer
            raise Damaged("the manifest of the file cannot be decoded")

    def _read_about(self) -> None:
        self._facts.seek(0)
        size = EntryFacts.parse(self._facts.readline()).size
        self._spool.seek(0)  # reads the first entry of the file again
        lines.check_format(self._spool.read(size))

    def _check(self) -> None:
        self._read_about()
        for section in self._sections.values():
            section.read_header()
            if self.is_backup and section.prefix != f"stores/{section.header.id}/":
                raise Damaged(f"in the file, the memory store {section.header.id} is in the folder of another store")
        self._facts.seek(0)
        texts = (known for line in self._facts if "texts/" in (known := EntryFacts.parse(line)).name)
        for section in self._sections.values():
            _SectionCheck(section).run(texts)
        if next(texts, None) is not None:
            raise Damaged("the file contains texts that no version uses")


class _SectionCheck:
    """Checks that the parts of a section agree with each other. Raises `Damaged`."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self._last: Version | None = None
        self._newest: dict[str, Version] = {}
        self._texts: dict[str, tuple[str, EntryFacts]] = {}  # memory id -> latest text of the memory
        self._replay = Replay()

    def run(self, texts: Iterator[EntryFacts]) -> None:
        """Check versions, memories and records.

        Takes the texts of this section from `texts`, which yields all texts in order.
        """
        header, count = self._section.header, 0
        for version, text_of in self._section.versions():
            self._check_order(version)
            self._check_text(version, text_of, texts)
            self._replay.add(version)
            self._newest[version.memory_id] = self._last = version
            count += 1
        if count != header.versions:
            raise Damaged(f"the file contains {count} versions instead of {header.versions}")
        self._replay.check_history(header.revision)
        self._check_memories()
        for part in (RECORDS, SIDE_RECORDS):
            deque(self._section.records(part), maxlen=0)

    def _check_order(self, version: Version) -> None:
        last, header = self._last, self._section.header
        if version.revision > header.revision or (
            last is not None
            and not (
                last.id < version.id and last.created_at < version.created_at and last.revision <= version.revision
            )
        ):
            raise Damaged(f"version {version.id} is not later than the previous version")
        needs_seal = self._section.is_raw and version.redacted_at is None
        if (version.seal is not None) != needs_seal:
            raise Damaged(f"version {version.id} and its memory store must be both encrypted or both unencrypted")

    def _check_text(self, version: Version, text_of: str | None, texts: Iterator[EntryFacts]) -> None:
        if version.redacted_at is not None or version.operation == "deleted":
            if text_of is not None:
                raise Damaged(f"version {version.id} has a text, although the version is a deletion or was redacted")
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
            raise Damaged(f"the text of version {version.id} differs from its recorded hash")

    def _check_memories(self) -> None:
        header, count, size, path = self._section.header, 0, 0, ""
        for memory, text_of in self._section.memories():
            version = self._newest.get(memory.id)
            if (
                version is None
                or version.operation == "deleted"
                or memory != replace(Memory.of(version, memory.created_at), seal=None, provenance_text=None)
                or memory.created_at > memory.updated_at
                or text_of != self._texts[memory.id][0]
                or memory.path <= path
            ):
                raise Damaged(f"the memory {memory.id} differs from its newest version")
            self._replay.check_present(memory)
            path, count, size = memory.path, count + 1, size + memory.size_bytes
        if (count, size) != (header.memories, header.size_bytes):
            raise Damaged(f"the file contains {count} memories with {size} bytes, but its header has other numbers")


@contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """Open the export or backup at a path, verify it, and yield it. Raises `NotFound`, `Damaged` or `UnknownSchema`."""
    with mapped_os_errors(), open(expanded(path), "rb") as raw, opened_archive(raw) as archive:
        yield archive


@contextmanager
def opened_archive(
    raw: IO[bytes], *, max_bytes: int | None = None, max_text_bytes: int | None = None
) -> Iterator[Archive]:
    """Verify the export or backup in an open file, and yield it. Raises `Damaged`, `UnknownSchema` or `TooLarge`."""
    with spool() as spooled, spool() as facts:
        yield Archive(raw, spooled, facts, max_bytes=max_bytes, max_text_bytes=max_text_bytes)


def _misplaced(name: str) -> Damaged:
    return Damaged(f"the entry {shown(name)} is out of order or repeated")


def _difference(known: EntryFacts, listed: bytes) -> str:
    name = listed.decode("ascii", "replace").rstrip("\n")[66:]
    if name == known.name:
        return f"the entry {shown(name)} was modified"
    if not listed:
        return f"the entry {shown(known.name)} is not in the manifest"
    return f"the entry {shown(name)} is missing or comes after {shown(known.name)}"
