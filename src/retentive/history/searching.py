"""Searches in one store: in the memories of the current or an earlier state, in all versions, or in proposals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from retentive.engine.citations import MARK, STATES, citations_of
from retentive.engine.operation import Read
from retentive.engine.pending import is_under_review
from retentive.engine.visibility import QUARANTINED, Assessment, Level, check_level, contributors_of, within
from retentive.errors import Damaged, InvalidInput
from retentive.history.revisions import Named, as_revision, parse_time, past_of
from retentive.review.proposals import AFTER, pending, text_key, text_of
from retentive.search.index import CORPORA, Corpus, Index, all_documents, index_of
from retentive.search.literal import Literal as LiteralQuery
from retentive.search.literal import parse_literal, search_literal
from retentive.search.query import MODES, Query, parse_query, question
from retentive.search.ranking import Which, search_index
from retentive.search.recall import LEAST_TOKENS, Passage, Recall, recall_index, recalled
from retentive.search.results import Document, Hit, Results
from retentive.storage.contract import Actor, Memory, Snapshot, as_actor
from retentive.storage.lookup import locate
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.patterns import covers, matches_actor

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
    is_question: bool = False
    """True if the query has no operators: its colons, quotation marks and minus signs mean nothing."""

    def run(self, context: StoreCore, actor: Actor | str | None = None) -> Results:
        """Run the search in a store. Raises `InvalidInput` if the query is malformed."""
        corpus, who = CORPORA.of(context.backend, context.id), as_actor(actor) or context.actor

        def work(snapshot: Snapshot) -> Results:
            return _Run(self, context, snapshot, who).results(corpus)

        under = MemoryPath.known(self.under)
        search = Read("search", work, under, _facts, needs_external_edits=True, sees_all=True, is_filtered=True)
        found = context.result_of(search, actor)
        CORPORA.trim(corpus)
        return found

    def recall(self, context: StoreCore, budget_tokens: int, actor: Actor | str | None = None) -> Recall:
        """Return the best lines for the question within a budget. Raises `InvalidInput`."""
        if budget_tokens < LEAST_TOKENS:
            raise InvalidInput(f"`budget_tokens` must be at least {LEAST_TOKENS}")
        corpus, who = CORPORA.of(context.backend, context.id), as_actor(actor) or context.actor

        def work(snapshot: Snapshot) -> list[Passage]:
            return _Run(self, context, snapshot, who).recalled(corpus, budget_tokens)

        def facts(found: list[Passage]) -> Mapping[str, object]:
            return {"reads": [*dict.fromkeys((each.memory_id, each.version_id) for each in found)]}

        under = MemoryPath.known(self.under)
        recall = Read("recall", work, under, facts, needs_external_edits=True, sees_all=True, is_filtered=True)
        found = context.result_of(recall, actor)
        CORPORA.trim(corpus)
        return recalled(found)


def _facts(found: Results) -> Mapping[str, object]:
    return {"reads": [[hit.memory_id, hit.version_id] for hit in found if hit.snippets]} if found.hits else {}


class _Run:
    """One search in one snapshot.

    `level_of` returns the trust level of a memory, or None if the search may not find it. None if it needs no levels.
    """

    def __init__(self, search: StoreSearch, context: StoreCore, snapshot: Snapshot, who: Actor | None) -> None:
        if search.limit is not None and search.limit < 0:
            raise InvalidInput("`limit` must be an integer of at least 0")
        if search.mode not in MODES:
            raise InvalidInput(f"`mode` must be one of {', '.join(MODES)}")
        self.search, self.snapshot, self.who = search, snapshot, who
        self.settings, self.scope = context.settings_of(snapshot), context.scope
        now = datetime.fromtimestamp(context.clock(), UTC)
        self.query: Query | LiteralQuery
        if search.is_question:
            self.query = question(search.query)
        elif search.regex or search.mode == "all":
            self.query = parse_literal(search.query, regex=search.regex, within=search.paths)
        else:
            self.query = parse_query(search.query, partial(parse_time, now=now), within=search.paths)
        self.at = None if search.at is None else as_revision(search.at, now)
        self.shows_nothing = context.hides_history and search.trust == QUARANTINED
        self.own_proposals_only = context.integration not in _OF_PEOPLE or is_under_review(self.settings, who)
        self.level_of: Callable[[Memory | Document], Level | None] | None = None

    def results(self, corpus: Corpus) -> Results:
        search, query = self.search, self.query
        is_proposed = isinstance(query, Query) and query.is_proposed
        if is_proposed + search.history + (self.at is not None) > 1:
            raise InvalidInput("a search covers only one of these: proposals, the history or an earlier state")
        if is_proposed:
            return self._scan(list(self._proposals()), search.limit)
        if search.history:
            return _first_versions(self._scan(list(self._versions()), None), search.limit)
        view = self.snapshot if self.at is None else past_of(self.snapshot, self.at)
        self.level_of = level_of = self._levels(view)
        with corpus.lock:
            if self.at is None:
                index, damaged = corpus.updated(view, self.settings.search_languages)
                found = self._search(index, search.limit)
            else:
                documents, damaged = all_documents(view)
                found = self._scan([each for each in documents if self._shows(each.path)], search.limit)
        if self.at is None:
            known = (replace(hit, freshness=hit.freshness and self._freshness(hit.memory_id)) for hit in found.hits)
            found = replace(found, hits=tuple(known))
        paths = [path for path in damaged if self._covers(path) and (not query.within or covers(query.within, path))]
        if level_of is None:
            return replace(found, damaged=tuple(paths))

        def level_at(path: str) -> Level | None:
            memory = locate(view, path).memory
            return None if memory is None else level_of(memory)

        hits = tuple(replace(hit, trust=level_at(hit.path) or "") for hit in found.hits)
        return replace(found, hits=hits, damaged=tuple(path for path in paths if level_at(path) is not None))

    def _freshness(self, memory_id: str) -> str:
        view = within(self.snapshot, self.scope)
        memory, limited = view.find(memory_id), self.level_of  # who may not see what is cited
        cited = [] if memory is None else citations_of(view, memory, locate(view, memory.path).data)
        return max((each.state for each in cited if not (limited and each.is_of_memory)), key=STATES.index, default="")

    def _scan(self, documents: Sequence[Document], limit: int | None) -> Results:
        """Search texts that are in no index of the process."""
        if isinstance(self.query, LiteralQuery):
            return search_literal(self.query, list(filter(self._admits, documents)), limit=limit)
        return self._search(index_of(documents, self.settings.search_languages), limit)

    def recalled(self, corpus: Corpus, budget: int) -> list[Passage]:
        self.level_of = level_of = self._levels(self.snapshot)
        assert isinstance(self.query, Query)

        @cache
        def marks_of(document: Document) -> tuple[str, str]:
            freshness = self._freshness(document.memory_id) if MARK in document.data else ""
            return "trusted" if level_of is None else level_of(document) or "", freshness

        with corpus.lock:
            index, _ = corpus.updated(self.snapshot, self.settings.search_languages)
            return recall_index(index, self.query, budget, marks_of, **self._which())

    def _search(self, index: Index, limit: int | None) -> Results:
        if isinstance(self.query, LiteralQuery):
            return self._scan(list(index.documents.values()), limit)
        return search_index(index, self.query, limit=limit, **self._which())

    def _which(self) -> Which:
        """Return which documents the search may find and count."""
        is_limited = self.search.shows is not None or self.scope or self.shows_nothing
        counted = (lambda document: self._shows(document.path)) if is_limited else None
        is_open = self.search.under == ROOT and not is_limited and self.level_of is None
        has_conditions = isinstance(self.query, Query) and self.query.has_conditions
        admit = None if is_open and not has_conditions else self._admits
        return {"counted": counted, "admit": admit, "sees": self._sees}

    def _shows(self, path: str) -> bool:
        is_in_scope = not self.shows_nothing and (not self.scope or covers(self.scope, path))
        return is_in_scope and (self.search.shows is None or self.search.shows(path))

    def _covers(self, path: str) -> bool:
        under = self.search.under
        return (under in {ROOT, path} or path.startswith(under + "/")) and self._shows(path)

    def _sees(self, document: Document) -> bool:
        return self._shows(document.path) and (self.level_of is None or self.level_of(document) is not None)

    def _admits(self, document: Document) -> bool:
        """Return whether the search may find a document."""
        if not (self._covers(document.path) and self._sees(document)):
            return False
        return not isinstance(self.query, Query) or self.query.admits(
            document, lambda: [each.actor for each in contributors_of(self.snapshot, document.provenance)]
        )

    def _levels(self, snapshot: Snapshot) -> Callable[[Memory | Document], Level | None] | None:
        """Return `level_of`. Memories in quarantine are found only by a search for this level.

        Raises `InvalidInput` for an unknown level.
        """
        source, only, settings = self.search.source, self.search.trust, self.settings
        if not (settings.trust or settings.quarantine or source is not None or only is not None):
            return None
        check_level(only)
        assessed = Assessment(snapshot, settings, self.who)

        def level_of(found: Memory | Document) -> Level | None:
            level = assessed.level(found)
            if only not in {None, level} or not (only == level == QUARANTINED or assessed.shows(found)):
                return None
            sources = (each.source for each in contributors_of(snapshot, found.provenance))
            return level if source is None or any(each and matches_actor(source, each) for each in sources) else None

        return level_of

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
        for proposal in pending(self.snapshot):
            if self.own_proposals_only and proposal.actor != self.who:
                continue
            for number, change in enumerate(proposal.changes):
                if change.has_text and change.path is not None:
                    name = text_key(proposal.id, number)
                    data = text_of(self.snapshot, AFTER, name, change.sha256 or "").encode()
                    yield Document(change.path, data, proposal.at, change.memory_id, name, change.provenance_text)


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
