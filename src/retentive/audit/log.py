"""The audit log of a memory store: who asked for what, when, and what came of it; never a path or a text.

Entries are kept by `Backend.jot`, beside the store: a view takes no lock of the store. Each process has a chain of its
own (`audit_entries`), its threads share it, and those that come together share one jot. An entry is durable before the
reply is given. After a failure the process begins a new chain: what was written is not known then, and an entry that is
there is never written over.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from retentive.audit.entries import (
    FIRST,
    KIND,
    TAIL,
    AuditEntry,
    Check,
    Head,
    Problem,
    Verified,
    key_of,
    new_chain,
    parsed,
    sealed,
    tail_of,
)
from retentive.engine.core import Engine
from retentive.engine.idempotency import Call
from retentive.errors import Damaged, OutcomeUnknown, RetentiveError
from retentive.storage.contract import Backend, Clock, Version, now_us
from retentive.storage.queue import Job, WriteQueue
from retentive.values.records import to_us
from retentive.values.replies import Reply
from retentive.values.settings import Settings

__all__ = ["Audit", "AuditEntry", "Head", "Problem", "Verified", "kept", "switching"]

_CHANGES_AT_ONCE = 500  # in one entry; more take several


class Audit:
    """The audit log of one memory store, read. Raises `RetentiveError`."""

    def __init__(self, store: Engine) -> None:
        self._store = store

    def entries(self, since: datetime | None = None) -> Iterator[AuditEntry]:
        """The entries since a time, in the order of their times. What cannot be read as an entry is left out."""
        found = [entry for _, entry in self._found() if since is None or entry.time >= since]
        return iter(sorted(found, key=lambda entry: (entry.time, entry.chain, entry.seq)))

    def export(self, since: datetime | None = None) -> Iterator[str]:
        """The same as they are kept, each one line of JSON, chain by chain."""
        return (value for value, entry in self._found() if since is None or entry.time >= since)

    def verify(self, *, expect: Iterable[Head | str] = ()) -> Verified:
        """Check that every entry is there, as it was written and where it was written; docs/audit.md.

        `expect` are entries that were noted elsewhere, as `CHAIN:SEQ:HASH`. Raises `InvalidInput` for another text.
        """
        expected = [Head.parse(each) if isinstance(each, str) else each for each in expect]
        check = Check(self._store.id, self._records, expected)
        problem = check.run()
        unaudited = self._unaudited(check) if check.began is not None else ()
        return Verified(check.entries, check.chains, problem, check.ends(), unaudited)

    def _records(self) -> Iterator[tuple[str, str]]:
        return self._store.backend.side_records(self._store.id, KIND)

    def _found(self) -> Iterator[tuple[str, AuditEntry]]:
        for key, value in self._records():
            entry = None if key.startswith(TAIL) else parsed(value)
            if entry is not None:
                yield value, entry

    def _unaudited(self, check: Check) -> tuple[Version, ...]:
        """Versions that were recorded while the log was on, and that no entry names: oldest first."""
        since = f"memver_{to_us(check.began or datetime.max):014x}"
        recent = self._store.read(lambda found: list(found.versions(after=since)))
        missed = [version for version in reversed(recent) if _is_missed(version, check)]
        if not missed:
            return ()
        try:  # again, for those that were written meanwhile
            known = {change.version_id for entry in self.entries() for change in entry.changes}
        except Damaged:
            return ()  # entries of a sealed store that cannot be opened do not tell what they name
        return tuple(version for version in missed if version.id not in known)


def _is_missed(version: Version, check: Check) -> bool:
    by_job = version.actor is not None and version.actor.kind == "job"
    return version.id not in check.versions and not by_job and check.was_on(version.created_at)


def kept(store: Engine, call: Call, reply: Reply) -> Reply:
    """The reply to a command, once its entry is durable, if the store is audited.

    If the entry cannot be written, raises the error of storage; `OutcomeUnknown` if something was changed.
    """
    settings = call.settings if call.settings is not None else _settings(store, reply)
    if settings is None or not settings.audit:
        return reply
    outcome = reply.code or "error" if reply.is_error else "ok"
    said: dict[str, Any] = {"command": call.name, "outcome": outcome}
    if call.read is not None:
        said["read"] = list(call.read)
    said |= {name: True for name, holds in (("listed", call.listed), ("repeated", call.repeated)) if holds}
    changes = call.changes if outcome in {"ok", "outcome_unknown"} else []
    try:
        _add(store, call, said, changes)
    except RetentiveError:
        if changes and not call.repeated:
            raise OutcomeUnknown("the change was made, and its entry in the audit log could not be written") from None
        raise
    return reply


def switching(store: Engine, change: Callable[[], Settings]) -> Settings:
    """Change the settings by `change`; that the log was switched on or off stands in it. Raises the errors of storage.

    What is recorded between the two moments of a change of settings and its entry is not missed by `Audit.verify`.
    """
    before, began = store.settings().audit, store.clock()
    settings = change()
    after = store.settings().audit
    if before != after:
        said = {"command": None, "outcome": "ok", "audit": after}
        _add(store, Call(None, None), said, [], store.clock if after else lambda: began)
    return settings


def _settings(store: Engine, reply: Reply) -> Settings | None:
    """The settings, for a command that never came so far as to know them; None if storage does not tell."""
    try:
        return store.settings()
    except RetentiveError:
        if reply.is_error and reply.code in {"unavailable", "locked", "damaged", "permission_denied"}:
            return None  # the reply says so already
        raise


def _add(
    store: Engine, call: Call, said: Mapping[str, Any], changes: Sequence[Any], clock: Clock | None = None
) -> None:
    who = call.who or store.actor
    common = {**said, "actor": None if who is None else str(who), "time": now_us(clock or store.clock)}
    parts = [changes[start : start + _CHANGES_AT_ONCE] for start in range(0, len(changes), _CHANGES_AT_ONCE)]
    entries = [common | {"changes": [list(each) for each in part]} for part in parts] or [common]
    if len(entries) > 1:
        entries = [entry | {"part": [number, len(entries)]} for number, entry in enumerate(entries, 1)]
    _chain_of(store).add(store.backend, entries, store.clock)


# -- chains ------------------------------------------------------------------------------------------------------


class _EntryJob(Job):
    """Entries of one command, in the queue of their chain."""

    __slots__ = ("backend", "clock", "entries")

    def __init__(self, backend: Backend, entries: Sequence[Mapping[str, Any]], clock: Clock) -> None:
        super().__init__()
        self.backend, self.entries, self.clock = backend, entries, clock


class _Chain:
    """The entries that this process writes for one memory store. Threads may share it."""

    def __init__(self, store_id: str) -> None:
        self._store_id = store_id
        self._queue: WriteQueue[_EntryJob] = WriteQueue(self._write)
        self._head: Head | None = None

    def add(self, backend: Backend, entries: Sequence[Mapping[str, Any]], clock: Clock) -> None:
        """Write entries, one after the other; they are durable on return. Raises the errors of storage."""
        self._queue.submit(_EntryJob(backend, entries, clock))

    def _write(self, jobs: Sequence[_EntryJob]) -> None:
        backend, head = jobs[0].backend, self._head
        self._head = None  # until it is known what was written
        try:
            values: dict[str, str | None] = {}
            first: dict[str, Any] = {}
            if head is None:
                head = Head(new_chain(now_us(jobs[0].clock)), 0, FIRST)
                tails = list(_tails(backend, self._store_id))
                values |= {TAIL + tail.chain: None for tail in tails}  # the first entry tells it from now on
                first = {"after": [list(tail) for tail in tails]}
            for said in (entry for job in jobs for entry in job.entries):
                value, head = sealed(self._store_id, head, {**said, **first})
                values[key_of(head.chain, head.seq)], first = value, {}
            values[TAIL + head.chain] = f"{head.seq}:{head.hash}"
            backend.put_side_records(self._store_id, KIND, values)
            self._head = head
        except Exception as error:  # also somebody's own backend may be at fault: none of the entries is there
            for job in jobs:
                job.error = error
            return
        for job in jobs:
            job.error = None


def _tails(backend: Backend, store_id: str) -> Iterator[Head]:
    """The ends of chains that no first entry names yet."""
    for key, value in backend.side_records(store_id, KIND, after=TAIL):
        tail = tail_of(key, value)
        if tail is not None:
            yield tail


_chains: WeakKeyDictionary[Backend, dict[str, _Chain]] = WeakKeyDictionary()
_mutex = threading.Lock()


def _chain_of(store: Engine) -> _Chain:
    with _mutex:
        return _chains.setdefault(store.backend, {}).setdefault(store.id, _Chain(store.id))


def _after_fork() -> None:
    """A child begins chains of its own, and has none of the threads that held locks."""
    global _chains, _mutex
    _chains, _mutex = WeakKeyDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
