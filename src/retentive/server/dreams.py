"""Dreams: records of the location, and the background work of the leader that runs one after the other.

A dream that was running when its server ended is `failed`; what it proposed so far stays. A dream into the memory store
that it reads leaves proposals, which a person accepts. One into a new memory store accepts its own there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

import anyio

from retentive.agent.events import AgentError, Event, TokenUsage, UsageReport
from retentive.agent.tidy import SensitiveMemories, Tidied, tidier_of, tidy_store_async, transcripts_in
from retentive.errors import Conflict, InvalidInput, NotFound, RetentiveError
from retentive.opening import Retentive
from retentive.server.kinds import RecordKind
from retentive.storage.contract import Actor, now_us, sortable_id, to_datetime
from retentive.store import MemoryStore, with_options
from retentive.tidy_lease import is_tidied
from retentive.values.records import time_in_id
from retentive.wire.dreams import DreamError, DreamObject, DreamStatus, DreamUsage, StoreInput

LOG = logging.getLogger("retentive.server")
KIND = "dream"
API_KEY = "RETENTIVE_DREAMS_API_KEY"
"""Environment variable with the key for the Messages API that dreams use."""
OPEN: tuple[DreamStatus, ...] = ("pending", "running")
ENDED: tuple[DreamStatus, ...] = ("completed", "failed", "canceled")
STOPPED = "interrupted"
MAX_DREAMS, MAX_WAITING = 1_000, 20
"""Dreams that a workspace keeps, and that may wait in it."""
SETTLED = timedelta(minutes=1)
"""Time after the end of a dream in which another process may still record an older one."""
_JOB = Actor("job", "dream")
_UNLOCKED = {"read_only": False, "read_only_paths": (), "allow_write": {}}
_UNLIMITED = {"max_memories": 0, "max_memory_bytes": 0, "max_store_bytes": 0}


class Dream(DreamObject):
    """Stored dream. `by` is the actor who asked for it, and `transcripts` says if they may read transcripts."""

    workspace_id: str
    by: str
    store_id: str
    sessions: list[str]
    budget_tokens: int
    max_deletions: int
    transcripts: bool

    @property
    def is_update(self) -> bool:
        """True if the result becomes proposals to the memory store that the dream reads."""
        return self.output_behavior.type == "update_existing"


class Dreams:
    """Dreams of a location. Threads and processes may share the object."""

    def __init__(self, opened: Retentive) -> None:
        self._known = RecordKind(opened.records, KIND, Dream)

    def create(self, **fields: Any) -> Dream:
        """Record a new dream. Raises `InvalidInput` if too many wait already. The oldest of too many are forgotten."""
        known = self.all()
        own = [each for each in known if each.workspace_id == fields["workspace_id"]]
        at = max([now_us(), *((time_in_id(each.id) or 0) + 1 for each in known[:1])])  # later than all, by any clock
        ended = [each for each in own if each.status not in OPEN]
        if len(own) - len(ended) >= MAX_WAITING:
            raise InvalidInput(f"{MAX_WAITING} dreams wait already; cancel some, or wait until they have ended")
        for old in ended[MAX_DREAMS - 1 :]:
            self._known.put(old.id, None)
        fields |= {"id": sortable_id("drm_", at), "status": "pending", "created_at": to_datetime(at)}
        made = Dream.model_validate(fields)
        self._known.put(made.id, made)
        return made

    def all(self, after: str = "") -> list[Dream]:
        """Return all dreams, newest first, or those that are newer than the one with the id `after`."""
        return self._known.list(after)[::-1]

    def get(self, dream_id: str) -> Dream:
        """Return a dream. Raises `NotFound`."""
        found = self._known.get(dream_id)
        if found is None:
            raise NotFound("no such dream")
        return found

    def change(self, dream_id: str, *statuses: DreamStatus, **changes: Any) -> Dream:
        """Change a dream, and return it. Raises `Conflict` unless it has one of these statuses."""
        while True:
            present = self.get(dream_id)
            if present.status not in statuses:
                raise Conflict(f"the dream is {present.status}")
            after = present.model_copy(update=changes)
            with suppress(Conflict):  # changed meanwhile
                self._known.put(dream_id, after, before=present)
                return after

    def end(self, dream_id: str, status: DreamStatus, error: DreamError | None = None) -> Dream:
        """End a dream. Raises `Conflict` if it has ended."""
        return self.change(dream_id, *OPEN, status=status, error=error, ended_at=datetime.now(UTC))


class Dreamer:
    """Runs the dreams that wait. Each call of the object is one round of the background work."""

    def __init__(self, opened: Retentive, api_key: str, url: str) -> None:
        self._opened, self._api_key, self._url, self._dreams = opened, api_key, url, Dreams(opened)
        self._ended = ""  # all dreams up to this one have ended, so no round reads them again

    def __call__(self, may_go_on: Callable[[], bool]) -> None:
        """Run the dreams that wait, one after the other. Raises `RetentiveError`."""
        dreams, settled = self._dreams.all(self._ended)[::-1], datetime.now(UTC) - SETTLED
        for dream in takewhile(lambda each: each.ended_at is not None and each.ended_at < settled, dreams):
            self._ended = dream.id
        for dream in dreams:
            if dream.status in ENDED:
                continue
            with suppress(Conflict):  # somebody canceled it, or another process runs it
                if dream.status == "running":  # the process that ran it has ended
                    self._dreams.end(dream.id, "failed", DreamError(type=STOPPED, message="the server stopped"))
                elif may_go_on() and not (dream.is_update and is_tidied(self._opened.records, dream.store_id)):
                    self._dreams.change(dream.id, "pending", status="running")
                    self._run(dream, may_go_on)

    def _run(self, dream: Dream, may_go_on: Callable[[], bool]) -> None:
        """Run a dream and record how it ended. Raises `Conflict` if somebody canceled it."""
        error = None
        try:
            done = self._tidied(dream, lambda: may_go_on() and self._dreams.get(dream.id).status == "running")
            if done.reason != "end_turn":
                message = f"the dream ended before Claude had finished: {done.reason}"
                error = DreamError(type=done.reason, message=message)
        except RetentiveError as failure:
            error = DreamError(type=failure.code, message=str(failure))
        except Exception:
            LOG.exception("a dream failed")
            error = DreamError(type="internal_error", message="the dream failed; the log of the server says why")
        self._dreams.end(dream.id, "failed" if error else "completed", error)

    def _tidied(self, dream: Dream, may_go_on: Callable[[], bool]) -> Tidied:
        """Tidy the memory store of a dream, or a new copy of it. Raises the error of the run."""
        store, change = self._opened.store(dream.store_id), partial(self._dreams.change, dream.id, "running")
        target = store if dream.is_update else self._copied(dream, store, may_go_on)
        actor = tidier_of(target)[0]
        change(outputs=[_output(target.id)], session_id=actor.id)

        def note(event: Event, used: TokenUsage) -> None:
            if isinstance(event, UsageReport):
                change(usage=DreamUsage.of(used))

        import anthropic  # noqa: PLC0415 - an extra

        async def run() -> Tidied:
            async with anthropic.AsyncAnthropic(api_key=self._api_key, base_url=self._url) as client:
                return await tidy_store_async(
                    target,
                    client=client,
                    model=dream.model.id,
                    budget_tokens=dream.budget_tokens,
                    max_deletions=dream.max_deletions,
                    instructions=dream.instructions or "",
                    sessions=dream.sessions,
                    transcripts=transcripts_in(self._opened, store) if dream.transcripts else None,
                    actor=actor,
                    on_event=note,
                    may_go_on=may_go_on,
                )

        try:
            return anyio.run(run)
        finally:
            if not dream.is_update:
                target.review.accept(proposed_by=actor, actor=_JOB, mode="partial")
                target.change_settings({name: getattr(store.settings(), name) for name in _UNLOCKED})

    def _copied(self, dream: Dream, store: MemoryStore, may_go_on: Callable[[], bool]) -> MemoryStore:
        """Create a memory store with the settings of another, open to every change, and its memories and their history.

        Memories that are sensitive or in quarantine are left out.
        """
        about, settings = self._opened.get_store(store.id), asdict(store.settings())
        made = self._opened.create_store(
            f"{about.name[:200]} (dream)", description=about.description, workspace=dream.workspace_id
        )
        self._dreams.change(dream.id, "running", outputs=[_output(made.id)])
        target, source = self._opened.store(made.id), with_options(store, hides=SensitiveMemories(store))
        target.change_settings({**settings, **_UNLOCKED, **_UNLIMITED})
        for memory in source.memories():
            if not may_go_on():
                raise AgentError("the dream was stopped while its memory store was copied", STOPPED)
            with suppress(NotFound):  # deleted meanwhile
                source.promote(memory.path, target, actor=dream.by)
                target.review.accept(actor=_JOB)
        target.change_settings({name: settings[name] for name in _UNLIMITED})
        return target


def _output(store_id: str) -> StoreInput:
    return StoreInput(type="memory_store", memory_store_id=store_id)


def dreams_key() -> str:
    """Return the API key for dreams, or "" if this server cannot dream."""
    return os.environ.get(API_KEY, "") if find_spec("anthropic") is not None else ""
