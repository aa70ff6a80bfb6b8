"""Checking all memory stores of an opened backend, through its contract and what it knows of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain

from retentive.audit.chain import ENTRY as AUDIT
from retentive.doctor.store_check import Progress, StoreCheck
from retentive.engine.access_times import KIND as ACCESSED
from retentive.errors import Damaged, NotFound, RetentiveError
from retentive.storage import capabilities
from retentive.storage.contract import Backend, StoreInfo
from retentive.storage.findings import Finding, found
from retentive.store import MemoryStore

_ENDS = {"schema_old", "schema_new", "schema_foreign"}  # nothing else can be told then


def check(backend: Backend, *, quick: bool = False, progress: Progress | None = None) -> Iterator[Finding]:
    """What is wrong at an opened place, and one finding `healthy` for each memory store with which nothing is.

    Each store is looked at in one consistent state; others may go on writing. `quick` leaves out the texts of older
    versions. `progress` hears, now and then, which store is looked at and how many memories and versions were. On the
    directory backend what was edited by hand is recorded first, as by every command; `check_place` does not.
    Never raises for what is damaged.
    """
    wrong: dict[str, int] = {}
    keys: dict[str | None, str | None] = {}
    with suppress(Exception):  # said below
        keys |= {info.id: info.key for info in backend.list_stores()}
    whole = True
    for finding in _tried(None, partial(capabilities.check, backend)):
        whole &= (finding.code, finding.store_id) != ("unreadable", None)
        yield replace(finding, store_key=keys.get(finding.store_id))
        if finding.code in _ENDS and finding.store_id is None:
            return
        if finding.store_id is not None and finding.severity == "problem":
            wrong[finding.store_id] = wrong.get(finding.store_id, 0) + 1
    for info in _tried_stores(backend, wrong):
        if isinstance(info, Finding):
            if whole:  # else it is said
                yield info
        else:
            for finding in _check_store(backend, info, wrong.get(info.id, 0), quick=quick, progress=progress):
                yield replace(finding, store_key=info.key)


def _check_store(
    backend: Backend, info: StoreInfo, before: int, *, quick: bool, progress: Progress | None
) -> Iterator[Finding]:
    try:
        capabilities.unlock(backend, info)
    except RetentiveError as error:
        yield found("unreadable" if isinstance(error, Damaged) else "locked", info.id, reason(error))
        return
    if not _is_found(backend, info):
        before += 1
        yield found("key_wrong", info.id)
    one = StoreCheck(info, quick=quick, progress=progress)
    problems = before
    state = _tried(info.id, lambda: backend.read(info.id, one.run))
    beside = _tried(info.id, partial(_check_beside, backend, info))
    for finding in chain(state, beside):
        problems += finding.severity == "problem"
        yield finding
    if not problems:
        yield found("healthy", info.id, f"{one.memories} memories, {one.versions} versions")


def _check_beside(backend: Backend, info: StoreInfo) -> Iterator[Finding]:
    """The records that are kept beside the store: when memories were viewed, and the audit log."""
    for key, value in backend.side_records(info.id, ACCESSED):
        if not _is_number(value):
            yield found("note_wrong", info.id, f"{ACCESSED} {key}")
    if backend.read(info.id, lambda snapshot: next(snapshot.records(AUDIT), None)) is None:
        return
    verified = MemoryStore(backend, info).audit.verify()
    if verified.problem is not None:
        yield found("audit_wrong", info.id, str(verified.problem))
    if verified.unaudited:
        yield found("audit_gap", info.id, f"{len(verified.unaudited)} versions from {verified.unaudited[0].id}")


def _is_found(backend: Backend, info: StoreInfo) -> bool:
    """Whether the key of a store leads to it. One that looks like an id may lead to another."""
    if info.key is None or info.key.startswith("memstore_"):
        return True
    try:
        named = backend.get_store(info.key)
    except RetentiveError:
        return False
    return named is not None and named.id == info.id


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _tried(store_id: str | None, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What is found; if it cannot be looked at, that. Damage can show as any error, so all are caught."""
    try:
        yield from look()
    except NotFound:  # erased meanwhile
        return
    except Exception as error:
        yield found("unreadable", store_id, reason(error))


def reason(error: Exception) -> str:
    """Why something cannot be read, without what an error of somebody else may tell."""
    return str(error) if isinstance(error, RetentiveError) else f"it is not what it should be ({type(error).__name__})"


def _tried_stores(backend: Backend, wrong: Iterable[str]) -> Iterator[StoreInfo | Finding]:
    """All memory stores. Where one that was found `wrong` spoils the list, the others are asked for one by one."""
    failure: Exception | None = None
    try:
        yield from backend.list_stores()
    except Exception as error:
        failure = error
    if failure is None:
        return
    after, passed = "", False
    while True:
        try:
            page = backend.list_stores(after=after, limit=1)
        except Exception:
            next_wrong = min((each for each in wrong if each > after), default=None)
            if next_wrong is None:
                break
            after, passed = next_wrong, True
            continue
        if not page:
            break
        yield page[0]
        after = page[0].id
    if not passed:
        yield found("unreadable", None, reason(failure))
