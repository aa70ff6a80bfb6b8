"""Memory store on a server. It has the methods and types of a local memory store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from retentive.engine.citations import STALE, STATES, Citation, Freshness
from retentive.engine.lists import Listed, ListedDirectory, ListedMemory, ListingCursor
from retentive.engine.rendering import error_reply
from retentive.errors import Conflicting, InvalidInput, NotFound, ReadOnly, Refused, RetentiveError, TooLarge, error_of
from retentive.history.log import check_limit
from retentive.history.revisions import Named
from retentive.remote.calls import (
    A,
    JsonFields,
    Remote,
    RemoteCore,
    Who,
    like,
    moment,
    parsed,
    prefix,
    sendable,
    sent_path,
)
from retentive.remote.client import Client
from retentive.remote.parts import RemoteById, RemoteHistory, RemoteReview, RemoteTrust
from retentive.review.promotion import Promoted
from retentive.search.recall import Recall
from retentive.search.results import Results
from retentive.store import MemoryStore
from retentive.values.commands import Clear, Command, parse, paths_of
from retentive.values.listing import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.properties import StoreInfo
from retentive.values.provenance import origin_of
from retentive.values.records import Actor, By, Memory, Usage, Version, Written, as_actor
from retentive.values.replies import Reply
from retentive.values.settings import DEFAULTS, Settings
from retentive.values.text import plain_name
from retentive.wire.base import Answer, AnswerPage
from retentive.wire.history import VersionObject
from retentive.wire.memories import (
    BatchAnswer,
    CheckFields,
    CitationObject,
    CommandAnswer,
    MemoryObject,
    MemoryPage,
    PrefixObject,
    RecallAnswer,
    SearchAnswer,
)
from retentive.wire.review import PromotedObject
from retentive.wire.stores import EvidenceObject, ImportResult, SettingsObject, UsageObject

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore
    from retentive.evidence import Evidence


class ImportOptions(TypedDict, total=False):
    """Options of an import."""

    overwrite: bool
    dry_run: bool
    source: str | None
    session: str | None


class RemoteStore(Remote, MemoryStore):
    """Memory store on a server. Threads may share it."""

    def __init__(self, client: Client, info: StoreInfo, actor: Actor | None) -> None:
        self.client = client
        self.base = f"/v1/memory_stores/{info.id}"
        self._core = cast("StoreCore", RemoteCore(info, actor))

    def __repr__(self) -> str:
        return f"<RemoteStore {self.id} key={self.key!r}>"

    def _by(self) -> Actor | None:
        return self.actor

    @property
    def _is_read_only(self) -> bool:
        return bool(self._core.pins.get("read_only"))

    def call(self, answer: type[A], method: str, path: str, actor: Who = None, **options: Any) -> A:
        """Send a request, as `Remote.call` does. Raises `ReadOnly` for a change of a store that was opened read-only.

        The server itself refuses a command, so that the reply is that of a local store.
        """
        if self._is_read_only and method != "GET" and path not in {"/commands", "/search", "/recall"}:
            raise ReadOnly("the memory store was opened read-only, so it cannot be changed")
        return super().call(answer, method, path, actor, **options)

    def directory(self) -> str | None:
        """Return None, because the memories are on the server."""
        return None

    def evidence(self, session: str) -> Evidence:
        """Return evidence, as `evidence.gather` does. The API key needs the scope `admin`."""
        return self.get(EvidenceObject, "/audit/evidence", {"session": session}).value()

    @like(MemoryStore.execute)
    def execute(
        self, command: object, actor: Who = None, tool_use_id: str | None = None, run: str | None = None, **origin: Any
    ) -> Reply:
        if tool_use_id is not None and not isinstance(tool_use_id, str):
            raise InvalidInput(f"a tool_use id must be a string, not {type(tool_use_id).__name__}")
        run = None if run is None else plain_name("a run", run)
        body, by = {**origin_of(**origin), "id": tool_use_id}, as_actor(actor)  # raise for arguments of no model
        try:
            return self._performed(command, by, body, run=run).reply()
        except Refused as refusal:
            return error_reply(self._core, refusal)
        except TooLarge:  # for one request to this server
            return error_reply(self._core, Refused("too_large_to_keep"))
        except RetentiveError as error:
            return error_reply(self._core, error, _named(command))

    def clear(self, **options: Any) -> Reply:
        return self.execute(Clear(), **options)

    def _performed(
        self, command: object, actor: Who = None, body: JsonFields | None = None, *, run: str | None = None
    ) -> CommandAnswer:
        """Send a command, and return the answer of the server. `body` has the other fields of the body.

        Raises `Refused` if the command cannot be sent.
        """
        given, by = sendable(command), as_actor(actor)
        mount = paths_of(command)[0].mount if isinstance(command, Command | Clear) else ROOT
        fields = {"command": given, "mount": mount, "read_only": self._is_read_only, **(body or {})}
        try:
            return self.post(CommandAnswer, "/commands", fields, by, run=run)
        except InvalidInput:
            if not isinstance(command, Command | Clear):
                parse(given)  # raises for a value that the body of a request cannot hold
            raise

    def answer(self, command: object, if_version: str | None = None) -> CommandAnswer:
        """Run a command, and return the whole answer of the server."""
        return self._performed(command, body={"if_version": if_version})

    def _written(self, command: Command, if_version: str | None, by: By) -> Written:
        origin = origin_of(by.get("source"), by.get("session"))
        done = self._performed(command, by.get("actor"), {"if_version": if_version, **origin})
        if not done.is_error:
            return done.value()
        error = error_of(done.content, done.error_code)
        if done.conflicting_memory_id is not None and done.conflicting_path is not None:
            error.conflicting = Conflicting(done.conflicting_memory_id, done.conflicting_path)
        raise error

    @like(MemoryStore.promote)
    def promote(self, path: str, to: MemoryStore, new_path: str | None, actor: Who = None, **origin: Any) -> Promoted:
        if not isinstance(to, RemoteStore) or to.client is not self.client:
            raise InvalidInput("both memory stores of a promotion must be in the same opened location")
        there = None if new_path is None else sent_path(new_path)
        body = {"path": sent_path(path), "to": to.id, "new_path": there, **origin_of(**origin)}
        missing = f"there is no memory at or below {parsed(path).written}"
        return self.post(PromotedObject, "/promote", body, actor, missing=missing).value()

    @like(MemoryStore.batch)
    def batch(self, commands: Sequence[object], actor: Who = None, **origin: Any) -> list[Written]:
        body = {"commands": list(map(sendable, commands)), **origin}
        return [each.value() for each in self.post(BatchAnswer, "/batch", body, actor).results]

    @like(MemoryStore.view)
    def view(self, path: str, view_range: tuple[int, int] | None) -> str:
        done = self._performed({"command": "view", "path": path, "view_range": view_range})
        return done.reply().raise_for_error().text

    @like(MemoryStore.load)
    def load(self, path: str) -> tuple[Memory, str]:
        target = parsed(path)
        if target.is_root:
            raise NotFound(f"there is no memory at {target.written}")
        return self._memory({"path": sent_path(path)}, missing=f"there is no memory at {target.written}")

    def _memory(self, query: JsonFields, *, missing: str = "") -> tuple[Memory, str]:
        found = self.get(MemoryObject, "/memory", query, missing=missing)
        return found.value(), found.content or ""

    def load_at(self, path: str, at: Named) -> tuple[Memory, str]:
        """Return the memory at `path` and its text, as they were at the time or revision `at`. Raises `NotFound`."""
        return self._memory({"path": sent_path(path), "at": moment(at)})

    def memories_at(self, under: str, at: Named) -> list[Memory]:
        """Return the memories below a directory, as they were at a time or revision.

        If `under` was the path of a memory at that time, return this memory.
        """
        found, path = self._below(under, at=moment(at)), sent_path(under)
        if not found and path != "/":
            with suppress(NotFound):
                found = [self._memory({"path": path, "view": "basic", "at": moment(at)})[0]]
        return found

    @like(MemoryStore.memories)
    def memories(self, under: str) -> list[Memory]:
        return self._below(under)

    def _below(self, under: str, *, at: object = None) -> list[Memory]:
        listed = self.pages(MemoryPage, "/memories", {"path_prefix": prefix(under), "at": at})
        return [each.value() for each in listed if isinstance(each, MemoryObject)]

    @like(MemoryStore.list_memories)
    def list_memories(
        self, under: str, depth: Literal[0, 1], cursor: ListingCursor | None, limit: int, *, texts: bool
    ) -> ListPage[Listed, ListingCursor]:
        page, view = None if cursor is None else cursor.pin, "full" if texts else "basic"
        query = {"path_prefix": prefix(under), "depth": depth, "view": view, "limit": min(limit, 100), "page": page}
        answer = self.get(MemoryPage, "/memories", query)
        following = None if answer.next_page is None else ListingCursor(answer.next_page, "")
        items = (
            ListedDirectory(each.path) if isinstance(each, PrefixObject) else ListedMemory(each.value(), each.content)
            for each in answer.data
        )
        return ListPage(tuple(items), following)

    @like(MemoryStore.versions)
    def versions(self, path: str | None, memory_id: str | None, limit: int | None) -> list[Version]:
        above = "/" if path is None else sent_path(path).rpartition("/")[0] + "/"
        listed = self.listed({"memory_id": memory_id, "path_prefix": above}, limit if path is None else None)
        found = [each.value() for each in listed]
        return found if path is None else [each for each in found if each.path == parsed(path).text][:limit]

    def listed(self, query: JsonFields, most: int | None = None) -> Iterator[VersionObject]:
        """Return the versions that `query` selects, newest first. Without `most`, return all of them."""
        return self.pages(AnswerPage[VersionObject], "/memory_versions", query, most)

    @like(MemoryStore.version_text)
    def version_text(self, version_id: str) -> str:
        return self.history.show(version_id)[1] or ""

    @like(MemoryStore.usage)
    def usage(self) -> Usage:
        return self.get(UsageObject, "/usage").value()

    @like(MemoryStore.settings)
    def settings(self) -> Settings:
        return self.get(SettingsObject, "/settings").value().changed(self._core.pins)

    @like(MemoryStore.change_settings)
    def change_settings(self, changes: Mapping[str, object], actor: Who) -> Settings:
        DEFAULTS.changed(changes)
        return self.post(SettingsObject, "/settings", changes, actor).value()

    @like(MemoryStore.search)
    def search(
        self, *, query: str, under: str, mode: str, regex: bool, at: Named | None, limit: int | None, actor: Who,
        **more: Any,
    ) -> Results:  # fmt: skip
        check_limit(limit)
        body = {
            **{name: value for name, value in more.items() if value},
            "query": query,
            "mode": "regex" if regex else mode,
            "path_prefix": prefix(under),
            "at": moment(at),
            "limit": 100 if limit is None else max(1, min(limit, 100)),
        }
        found = self.post(SearchAnswer, "/search", body, actor).value()
        return replace(found, hits=found.hits[:limit])

    @like(MemoryStore.recall)
    def recall(self, question: str, budget_tokens: int, under: str, actor: Who) -> Recall:
        body = {"question": question, "budget_tokens": budget_tokens, "path_prefix": prefix(under)}
        return self.post(RecallAnswer, "/recall", body, actor).value()

    @like(MemoryStore.citations)
    def citations(self, under: str, states: Iterable[Freshness]) -> list[Citation]:
        chosen = {*states} or {*STATES}
        query = {"path_prefix": prefix(under), "stale": "true" if chosen <= {*STALE} else None}
        found = (each.value() for each in self.pages(AnswerPage[CitationObject], "/citations", query))
        return [each for each in found if each.state in chosen]

    def _verified(self, checked: Sequence[Citation], actor: Who) -> None:
        found = [{name: getattr(each, name) for name in CheckFields.model_fields} for each in checked]
        self.post(AnswerPage[CitationObject], "/citations/verify", {"citations": found}, actor)

    def download(self, sink: IO[bytes], *, format: str) -> None:  # noqa: A002
        """Write an export to a file. Each attempt overwrites the file from its start."""
        self.call(Answer, "GET", "/export", query={"format": format}, sink=sink)

    def upload(
        self, pieces: Callable[[], Iterator[bytes]], under: str, **options: Unpack[ImportOptions]
    ) -> ImportResult:
        """Import a tar file, and return the response of the server.

        `pieces` returns the bytes of the file; it is called for each attempt.
        """
        return self.post(ImportResult, "/import", query={"path_prefix": prefix(under), **options}, upload=pieces)

    @property
    def by_id(self) -> RemoteById:
        return RemoteById(self)

    @property
    def history(self) -> RemoteHistory:
        return RemoteHistory(self)

    @property
    def review(self) -> RemoteReview:
        return RemoteReview(self)

    @property
    def trust(self) -> RemoteTrust:
        return RemoteTrust(self)


def _named(command: object) -> tuple[MemoryPath, ...]:
    """Return the paths of a command, for an error reply."""
    try:
        return paths_of(command if isinstance(command, Command | Clear) else parse(command))
    except Refused:
        return (MemoryPath.known(ROOT),)
