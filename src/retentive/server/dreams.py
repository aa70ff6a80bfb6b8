"""Dreams: records of the location, and the background work of the leader that runs one after the other.

A dream that was running when its server ended is `failed`; what it proposed so far stays. A dream into the memory store
that it reads leaves proposals, which a person accepts. One into a new memory store accepts its own there.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import Any

import anyio

from retentive.agent.events import Event, TokenUsage, UsageReport
from retentive.agent.tidy import SensitiveMemories, Tidied, tidier_of, tidy_store_async, transcripts_in
from retentive.errors import Conflict, InvalidInput, NotFound, RetentiveError
from retentive.opening import Retentive
from retentive.storage.contract import Actor, now_us, sortable_id, to_datetime
from retentive.store import MemoryStore, with_options
from retentive.tidy_lease import TidyLease
from retentive.values.paths import ROOT
from retentive.values.records import time_in_id
from retentive.wire.dreams import DreamError, DreamObject, DreamOutput, DreamStatus, DreamUsage

LOG = logging.getLogger("retentive.server")
KIND = "dream"
API_KEY = "RETENTIVE_DREAMS_API_KEY"
"""Environment variable with the key for the Messages API that dreams use."""
ENDED = frozenset({"completed", "failed", "canceled"})
MAX_DREAMS, MAX_WAITING = 1_000, 20
"""Dreams that a location keeps, and that may wait in a workspace."""
_JOB = Actor("job", "dream")
_LOCKS = {"read_only": False, "read_only_paths": (), "allow_write": {}}


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
        self._records = opened.records

    def create(self, **fields: Any) -> Dream:
        """Record a new dream. Raises `InvalidInput` if too many wait already. The oldest of too many are forgotten."""
        every, at = self.all(), now_us()
        if (
            sum(each.status not in ENDED for each in every if each.workspace_id == fields["workspace_id"])
            >= MAX_WAITING
        ):
            raise InvalidInput(f"{MAX_WAITING} dreams wait already; cancel some, or wait until they have ended")
        for old in [each for each in every if each.status in ENDED][MAX_DREAMS - 1 :]:
            self._records.put(KIND, old.id, None)
        fields |= {"id": sortable_id("drm_", at), "status": "pending", "created_at": to_datetime(at)}
        made = Dream.model_validate(fields)
        self._records.put(KIND, made.id, made.model_dump_json())
        return made

    def all(self) -> list[Dream]:
        """Return all dreams, newest first."""
        return [Dream.model_validate_json(text) for _, text in reversed(self._records.list(KIND))]

    def open(self) -> list[Dream]:
        """Return the dreams that have not ended, oldest first."""
        texts = [text for _, text in self._records.list(KIND) if json.loads(text)["status"] not in ENDED]
        return list(map(Dream.model_validate_json, texts))

    def get(self, dream_id: str) -> Dream:
        """Return a dream. Raises `NotFound`."""
        text = self._records.get(KIND, dream_id) if time_in_id(dream_id) else None
        if text is None:
            raise NotFound("no such dream")
        return Dream.model_validate_json(text)

    def change(self, dream_id: str, *, is_open: bool = False, **changes: Any) -> Dream:
        """Change a dream, and return it. With `is_open`, raises `Conflict` if it has ended."""
        while True:
            present = self.get(dream_id)
            if is_open and present.status in ENDED:
                raise Conflict("the dream has ended")
            after = present.model_copy(update=changes)
            with suppress(Conflict):  # changed meanwhile
                self._records.put(KIND, dream_id, after.model_dump_json(), expected=present.model_dump_json())
                return after

    def end(self, dream_id: str, status: DreamStatus, error: DreamError | None = None) -> Dream:
        """End a dream. Raises `Conflict` if it has ended."""
        return self.change(dream_id, is_open=True, status=status, error=error, ended_at=datetime.now(UTC))


class Dreamer:
    """Runs the dreams that wait. Each call of the object is one round of the background work."""

    def __init__(self, opened: Retentive, api_key: str, url: str) -> None:
        self._opened, self._api_key, self._url, self._dreams = opened, api_key, url, Dreams(opened)

    def __call__(self, may_go_on: Callable[[], bool]) -> None:
        """Run the dreams that wait, one after the other. Raises `RetentiveError`."""
        for dream in self._dreams.open():
            if dream.status == "running":  # the process that ran it has ended
                self._end(dream, DreamError(type="interrupted", message="the server stopped while this dream ran"))
            elif may_go_on():
                self._run(dream, may_go_on)

    def _run(self, dream: Dream, may_go_on: Callable[[], bool]) -> None:
        error: DreamError | None = None
        try:
            store = self._opened.store(dream.store_id)
            if dream.is_update and TidyLease(store).is_held:
                return  # until the other run has ended
            error = self._outcome(dream, store, may_go_on)
        except RetentiveError as failure:
            error = DreamError(type=failure.code, message=str(failure))
        except Exception:
            LOG.exception("a dream failed")
            error = DreamError(type="internal_error", message="the dream failed; the log of the server says why")
        self._end(dream, error)

    def _outcome(self, dream: Dream, store: MemoryStore, may_go_on: Callable[[], bool]) -> DreamError | None:
        """Run a dream to its end. Return why it failed, or None. Raises the error of the run."""
        target = store if dream.is_update else self._copy(dream, store)
        actor, change = tidier_of(target)[0], partial(self._dreams.change, dream.id, is_open=True)
        outputs = [DreamOutput(memory_store_id=target.id)]
        change(status="running", outputs=outputs, session_id=actor.id)

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
                    may_go_on=lambda: may_go_on() and self._dreams.get(dream.id).status == "running",
                )

        try:
            done = anyio.run(run)
        finally:
            if not dream.is_update:
                target.review.accept(proposed_by=actor, actor=_JOB, mode="partial")
                target.change_settings({name: getattr(store.settings(), name) for name in _LOCKS})
        if done.reason == "end_turn":
            return None
        return DreamError(type=done.reason, message=f"the dream ended before Claude had finished: {done.reason}")

    def _copy(self, dream: Dream, store: MemoryStore) -> MemoryStore:
        """Create the memory store for the result, a copy without sensitive memories and those in quarantine."""
        about = self._opened.get_store(store.id)
        made = self._opened.create_store(
            f"{about.name[:200]} (dream)", description=about.description, workspace=dream.workspace_id
        )
        target = self._opened.store(made.id)
        target.change_settings({**asdict(store.settings()), **_LOCKS})
        source = with_options(store, hides=SensitiveMemories(store))
        with suppress(NotFound):  # there are no memories
            source.promote(ROOT, target, actor=dream.by)
        target.review.accept(actor=_JOB)
        return target

    def _end(self, dream: Dream, error: DreamError | None) -> None:
        with suppress(Conflict):  # somebody canceled it
            self._dreams.end(dream.id, "failed" if error else "completed", error)


def dreams_key() -> str:
    """Return the API key for dreams, or "" if this server cannot dream."""
    return os.environ.get(API_KEY, "") if find_spec("anthropic") is not None else ""
