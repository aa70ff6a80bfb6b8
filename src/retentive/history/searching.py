"""Searches in one store: in the memories of the current or an earlier state, in all versions, or in proposals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

from retentive.engine.operation import Read
from retentive.engine.proposing import is_under_review
from retentive.engine.trust import QUARANTINED, Level, check_level, contributors_of
from retentive.engine.visibility import Assessment
from retentive.errors import Damaged, InvalidInput
from retentive.history.past import past_of
from retentive.history.revisions import Named, as_revision, parse_time
from retentive.review.proposals import AFTER, pending, text_key, text_of
from retentive.search.index import CORPORA, Corpus, all_documents, index_of
from retentive.search.literal import Literal as LiteralQuery
from retentive.search.literal import parse_literal, search_literal
from retentive.search.query import MODES, Query, parse_query
from retentive.search.ranking import Admit, Statistics, search_index, statistics_of
from retentive.search.results import Document, Hit, Results
from retentive.storage.contract import Actor, Memory, Snapshot, as_actor
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.patterns import covers, matches_actor
from retentive.values.settings import Settings

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

_OF_PEOPLE = ("python", "cli")  # integrations whose callers may see the proposals of all actors


@dataclass(frozen=True, slots=True)
class StoreSearch:
    """Parameters of a search, as in `MemoryStore.search`."""

    query: str
    mode: Literal["ranked", "all"] = "ranked"
    regex: bool = False
    under: str = ROOT
    paths: tuple[str, ...] = ()
    at: Named | None = None
    history: bool = False
    source: str | None = None
    trust: Level | None = None
    limit: int | None = 20
    shows: Callable[[str], bool] | None = None
    """Function that returns whether a path is visible; None if all paths are visible."""
    progress: Callable[[int], None] | None = None
    """Function that is called while an index is built, with the number of memories indexed so far.

    If the function raises an error, the search ends with this error.
    """

    @property
    def is_ranked(self) -> bool:
        """True if the results are ranked. Only a ranked search uses `statistics`."""
        return self.mode == "ranked" and not self.regex

    def check(self, context: StoreCore) -> None:
        """Raise `InvalidInput` if the query or the directory is malformed."""
        with context.checking("search"):
            context.parsed(self.under)
            self._parsed(_now(context))

    def check_text(self) -> None:
        """Raise `InvalidInput` if the query is malformed. The directory is not checked."""
        self._parsed(datetime.now(UTC))

    def run(
        self,
        context: StoreCore,
        actor: Actor | str | None,
        ask: Callable[[Read[Results]], Results],
        *,
        statistics: Statistics | None = None,
    ) -> Results:
        """Run the search in a store. `ask` is a function that runs a read operation in the store.

        `statistics` are needed if the results of several stores are ranked together. They then cover all these stores.
        """
        corpus = CORPORA.of(context.backend, context.id)
        who = as_actor(actor) or context.actor
        is_person = context.integration in _OF_PEOPLE

        def work(snapshot: Snapshot) -> Results:
            parsed = self._parsed(_now(context))  # here, so that a malformed query gets an entry in the audit log
            settings = context.settings_of(snapshot)
            search = self if self.at is None else replace(self, at=as_revision(self.at, _now(context)))
            if context.hides_history and search.trust == QUARANTINED:
                search = replace(search, shows=lambda _: False)
            if context.scope:
                search = replace(search, shows=partial(_is_shown, context.scope, search.shows))
            return _Run(search, parsed, snapshot, settings, who, statistics, is_person).results(corpus)

        under = MemoryPath.known(self.under)
        found = ask(Read("search", work, under, needs_external_edits=True, sees_all=True, is_filtered=True))
        CORPORA.trim(corpus)
        return found

    def statistics(self, context: StoreCore, ask: Callable[[Read[Statistics]], Statistics]) -> Statistics:
        """Return the statistics of a store for the terms of the query. Raises `InvalidInput`."""
        parsed = self._parsed(_now(context))
        if not isinstance(parsed, Query):
            return Statistics()
        corpus = CORPORA.of(context.backend, context.id)

        def work(snapshot: Snapshot) -> Statistics:
            languages = context.settings_of(snapshot).search_languages
            with corpus.lock:
                return statistics_of(corpus.updated(snapshot, languages, self.progress)[0], parsed)

        found = ask(Read("search", work, needs_external_edits=True, sees_all=True, is_filtered=True))
        CORPORA.trim(corpus)
        return found

    def _parsed(self, now: datetime) -> Query | LiteralQuery:
        if self.limit is not None and self.limit < 0:
            raise InvalidInput("`limit` must be an integer of at least 0")
        if self.mode not in MODES:
            raise InvalidInput(f"`mode` must be one of {', '.join(MODES)}")
        if self.regex or self.mode == "all":
            return parse_literal(self.query, regex=self.regex, within=self.paths)
        return parse_query(self.query, partial(_time, now=now), within=self.paths)


def number_to_index(context: StoreCore) -> int:
    """Return the number of memories to index before the next search. 0 if this process already has an index."""
    if CORPORA.of(context.backend, context.id).is_built:
        return 0
    return context.read(lambda snapshot: snapshot.state.usage.memories)


@dataclass(frozen=True, slots=True)
class _Run:
    """One search in one snapshot. `is_person` is true if the caller may see the proposals of all actors."""

    search: StoreSearch
    query: Query | LiteralQuery
    snapshot: Snapshot
    settings: Settings
    who: Actor | None
    statistics: Statistics | None
    is_person: bool

    def results(self, corpus: Corpus) -> Results:
        search, query = self.search, self.query
        is_proposed = isinstance(query, Query) and query.is_proposed
        if is_proposed + search.history + (search.at is not None) > 1:
            raise InvalidInput("a search covers only one of these: proposals, the history or an earlier state")
        if is_proposed:
            return self._scan(self._proposals())
        if search.history:
            return _first_versions(self._scan(self._versions(), limit=None), search.limit)
        snapshot = self.snapshot if search.at is None else past_of(self.snapshot, search.at)
        levels = self._levels(snapshot)
        if search.at is not None:
            documents, damaged = all_documents(snapshot)
            shown = [each for each in documents if search.shows is None or search.shows(each.path)]
            return self._completed(self._scan(shown, levels), levels, damaged)
        with corpus.lock:
            return self._indexed(corpus, levels)

    def _indexed(self, corpus: Corpus, levels: _Levels | None) -> Results:
        search, query = self.search, self.query
        index, damaged = corpus.updated(self.snapshot, self.settings.search_languages, search.progress)
        admit, sees = self._admit(levels), self._sees(levels)
        if isinstance(query, LiteralQuery):
            documents = [each for each in index.documents.values() if admit is None or admit(each)]
            return self._completed(search_literal(query, documents, limit=search.limit), levels, damaged)
        statistics = self.statistics
        if statistics is None and search.shows is not None:
            statistics = statistics_of(index, query, self._sees(None))
        found = search_index(index, query, limit=search.limit, statistics=statistics, admit=admit, sees=sees)
        return self._completed(found, levels, damaged)

    def _scan(self, documents: Iterable[Document], levels: _Levels | None = None, *, limit: int | None = -1) -> Results:
        """Search texts that are in no index of the process."""
        limit = self.search.limit if limit == -1 else limit
        admit, query = self._admit(levels), self.query
        if isinstance(query, LiteralQuery):
            return search_literal(query, [each for each in documents if admit is None or admit(each)], limit=limit)
        index = index_of(list(documents), self.settings.search_languages)
        sees = self._sees(levels)
        return search_index(index, query, limit=limit, statistics=self.statistics, admit=admit, sees=sees)

    def _levels(self, snapshot: Snapshot) -> _Levels | None:
        search, settings = self.search, self.settings
        if not (settings.trust or settings.quarantine or search.source is not None or search.trust is not None):
            return None
        return _Levels(snapshot, settings, self.who, source=search.source, only=search.trust)

    def _admit(self, levels: _Levels | None) -> Admit | None:
        """Return the condition that a document must meet to be found. None if there is no condition."""
        under, has_filters = self.search.under, isinstance(self.query, Query) and self.query.filters != _NO_FILTERS
        sees = self._sees(levels)
        if under == ROOT and sees is None and not has_filters:
            return None

        def admit(document: Document) -> bool:
            if not _is_below(document.path, under) or (sees is not None and not sees(document)):
                return False
            return not isinstance(self.query, Query) or self.query.filters.admit(
                document, lambda: [each.actor for each in contributors_of(self.snapshot, document)]
            )

        return admit

    def _sees(self, levels: _Levels | None) -> Admit | None:
        """Return a function that selects the documents visible to the actor, or None if all documents are visible."""
        shows = self.search.shows
        if shows is None:
            return None if levels is None else levels.admits
        return lambda document: shows(document.path) and (levels is None or levels.admits(document))

    def _completed(self, found: Results, levels: _Levels | None, damaged: Iterable[str]) -> Results:
        """Add the trust levels and the damaged memories to the results.

        Only damaged memories that the search would have covered are added.
        """
        within = self.query.within if isinstance(self.query, LiteralQuery) else self.query.filters.within
        named = tuple(
            path
            for path in damaged
            if _is_below(path, self.search.under)
            and (levels is None or levels.at(path) is not None)
            and (self.search.shows is None or self.search.shows(path))
            and (not within or covers(within, path))
        )
        hits = (
            found.hits if levels is None else tuple(replace(hit, trust=levels.at(hit.path) or "") for hit in found.hits)
        )
        return replace(found, hits=hits, damaged=named)

    def _versions(self) -> Iterator[Document]:
        assessed = Assessment(self.snapshot, self.settings, self.who)
        for version in all_versions(self.snapshot):
            if version.operation == "deleted" or version.redacted_at is not None or not assessed.shows(version):
                continue
            try:
                data = self.snapshot.version(version.id)[1] or b""
            except Damaged as error:
                if error.is_outdated:
                    raise
                continue
            provenance = version.provenance_text
            yield Document(version.path, data, version.created_at, version.memory_id, version.id, provenance)

    def _proposals(self) -> Iterator[Document]:
        """Yield the texts of pending proposals. Actors under review and all models see only their own proposals."""
        own_only = not self.is_person or is_under_review(self.settings, self.who)
        for proposal in pending(self.snapshot):
            if own_only and proposal.actor != self.who:
                continue
            for number, change in enumerate(proposal.changes):
                if change.has_text and change.path is not None:
                    name = text_key(proposal.id, number)
                    data = text_of(self.snapshot, AFTER, name, change.sha256 or "").encode()
                    yield Document(change.path, data, proposal.at, change.memory_id, name, change.provenance_text)


class _Levels:
    """Trust levels of the memories that a search by an actor may find.

    `only` limits the search to one level, and `source` to memories with a contributor whose source matches. Memories in
    quarantine are found only if `only` is `quarantined`. Raises `InvalidInput` for an unknown level.
    """

    def __init__(
        self, snapshot: Snapshot, settings: Settings, actor: Actor | None, *, source: str | None, only: Level | None
    ) -> None:
        check_level(only)
        self._assessed = Assessment(snapshot, settings, actor)
        self._snapshot, self._source, self._only = snapshot, source, only

    def of(self, found: Memory | Document) -> Level | None:
        """Return the level of a memory, or None if the search may not find the memory."""
        level = self._assessed.level(found)
        is_asked_for = self._only == level == QUARANTINED
        if self._only not in {None, level} or not (is_asked_for or self._assessed.shows(found)):
            return None
        sources = (each.source for each in contributors_of(self._snapshot, found))
        has_source = self._source is None or any(each and matches_actor(self._source, each) for each in sources)
        return level if has_source else None

    def admits(self, found: Memory | Document) -> bool:
        return self.of(found) is not None

    def at(self, path: str) -> Level | None:
        """Return the level of the memory at a path. None if there is no memory, or if the search may not find it."""
        found = next((each for each, _ in self._snapshot.list(path.rpartition("/")[0], start=path, limit=1)), None)
        return None if found is None or found.path != path else self.of(found)


_NO_FILTERS = Query("").filters


def _is_shown(reach: tuple[str, ...], shows: Callable[[str], bool] | None, path: str) -> bool:
    return covers(reach, path) and (shows is None or shows(path))


def _now(context: StoreCore) -> datetime:
    return datetime.fromtimestamp(context.clock(), UTC)


def _time(text: str, *, now: datetime) -> datetime:
    try:
        return parse_time(text, now)
    except ValueError as error:
        raise InvalidInput(str(error).rstrip(".")) from None


def _is_below(path: str, under: str) -> bool:
    return under in {ROOT, path} or path.startswith(under + "/")


def _first_versions(found: Results, limit: int | None) -> Results:
    """If versions of a memory have the same matching lines, keep only the oldest of these versions."""
    oldest: dict[tuple[str, tuple[str, ...]], Hit] = {}
    for hit in found.hits:
        said = hit.memory_id, tuple(each.text for each in hit.snippets)
        known = oldest.get(said)
        if known is None or hit.updated_at < known.updated_at:
            oldest[said] = replace(hit, score=max(hit.score, known.score if known else 0.0))
    hits = sorted(oldest.values(), key=lambda hit: (-hit.score, -hit.updated_at.timestamp(), hit.path))
    return replace(found, hits=tuple(hits[:limit]), total=len(hits))
