"""What programs read of a memory store: memories, texts, versions and usage, without commands and replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from retentive.errors import InvalidInput, InvalidPath, NotFound, ReadOnly, Refused, SensitiveValue, TooLarge
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Memory, Snapshot, StoreInfo, Usage, Version
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import Replies
from retentive.values.text import decoded

if TYPE_CHECKING:
    from retentive.search.index import Corpus
    from retentive.search.query import Results

T = TypeVar("T")


def parsed(path: str, replies: Replies) -> MemoryPath:
    """A path that a program gave. Raises `InvalidPath`, with the reason in the language of the replies."""
    try:
        return MemoryPath.parse(path)
    except Refused as refusal:
        raise InvalidPath(replies.phrase(refusal.key, refusal.values)) from None


def raised(refusal: Refused, replies: Replies) -> InvalidInput:
    """What a program gets where a model would get an error reply: the same sentence, with the same code."""
    said = replies.error(refusal.key, refusal.values)
    return _OF_GUARDS.get(said.code or "", InvalidInput)(said.text.removeprefix("Error: "))


_OF_GUARDS = {each.code: each for each in (ReadOnly, TooLarge, SensitiveValue)}


class Readable:
    """One memory store, read by a program. Raises `RetentiveError`."""

    backend: Backend
    info: StoreInfo
    replies: Replies
    _corpus: Corpus | None = None

    @property
    def id(self) -> str:
        """`memstore_...`"""
        return self.info.id

    @property
    def key(self) -> str | None:
        """The application's own name for the store, unique in the backend."""
        return self.info.key

    @property
    def name(self) -> str:
        """The name to show to people."""
        return self.info.name

    def load(self, path: str) -> tuple[Memory, str]:
        """The memory at `path` and its text. Raises `NotFound`."""
        target = self._parsed(path)
        look = self.read(lambda snapshot: snapshot.get(target.text))
        if look.memory is None:
            raise NotFound(f"there is no memory at {path}")
        return look.memory, decoded(look.data, path=look.memory.path)

    def text(self, path: str) -> str:
        """The text of the memory at `path`. Raises `NotFound`."""
        return self.load(path)[1]

    def memories(self, under: str = ROOT) -> Iterator[Memory]:
        """All memories below a directory, in the byte order of their paths."""
        target = self._parsed(under)
        return iter(self.read(lambda snapshot: list(snapshot.memories(target.text))))

    def versions(
        self, path: str | None = None, *, memory_id: str | None = None, limit: int | None = None
    ) -> Iterator[Version]:
        """Versions, newest first: of the store, of what changed at `path`, or of one memory across renames."""
        at = None if path is None else self._parsed(path).text
        return iter(self.read(lambda found: list(found.versions(memory_id=memory_id, path=at, limit=limit))))

    def version_text(self, version_id: str) -> str:
        """The text a version left behind, empty for a deletion. Raises `NotFound`."""
        return decoded(self.read(lambda snapshot: snapshot.text(version_id)) or b"")

    def search(
        self,
        query: str,
        *,
        under: str = ROOT,
        paths: Sequence[str] = (),
        regex: bool = False,
        limit: int | None = 20,
    ) -> Results:
        """The memories below a directory that hold all words of a query, the newest first, with the lines they are in.

        Words are found anywhere, in any language, whatever their case; "words in quotes" together, -word not at all.
        `paths` are patterns of paths, as in settings. With `regex` the query is one pattern (extra `guards`). Raises
        `InvalidInput`.
        """
        from retentive.search.index import Corpus  # noqa: PLC0415
        from retentive.search.query import parse_query  # noqa: PLC0415 - most processes never search

        target, parsed = self._parsed(under), parse_query(query, regex=regex, within=paths)
        corpus = self._corpus = self._corpus or Corpus()

        def work(found: Snapshot) -> Results:
            self.record_hand_edits(found)
            return corpus.search(found, parsed, under=target.text, limit=limit)

        return self.read(work)

    def usage(self) -> Usage:
        """How much the store holds."""
        return self.read(lambda snapshot: snapshot.usage())

    def record_hand_edits(self, found: Snapshot) -> None:
        """Have what people edited by hand in plain files recorded, so that it is in what is seen from here on."""
        if capabilities.directory_of(self.backend, self.info) is not None:
            list(found.sizes(ROOT))  # a listing looks at every file

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one consistent state."""
        return self.backend.read(self.id, work)

    def _parsed(self, path: str) -> MemoryPath:
        return parsed(path, self.replies)
