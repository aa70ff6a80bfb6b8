"""Pages for the erasure of memories. The steps are: find, check and confirm. The result is a receipt as proof."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from retentive.audit.chain import head_of
from retentive.console.visits import Download, HtmlPage, PageAnswer, Redirect, Visit, not_found
from retentive.engine.operation import AuditOnly, Read
from retentive.errors import NotFound, RetentiveError
from retentive.server.errors import invalid
from retentive.storage.contract import Snapshot, Version, now_us, sortable_id
from retentive.store import core_of
from retentive.store.by_id import read_memory
from retentive.values.paths import ROOT

RECEIPT = "console.erasure"
"""Kind of location records for receipts. A receipt contains neither paths nor texts."""
AT_ONCE = 100
"""Maximum number of memories in one erasure."""
VERSIONS = 1_000
COMPARED = 20_000
"""If the store has more memories than this, their hashes are not compared with the hashes of erased texts."""
RECEIPTS = 50
_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class ToErase:
    """Memory to erase. `versions` are its versions, newest first, and `present` is its path if it still exists.

    `why` is the reason why the memory was found.
    """

    memory_id: str
    versions: Sequence[Version]
    present: str | None
    why: str = ""

    @property
    def path(self) -> str:
        """Current path of the memory, or its last path if it was deleted."""
        return self.present or next((each.path for each in self.versions if each.path), "")

    @property
    def earlier(self) -> list[str]:
        """Other paths that the memory had."""
        return [
            each for each in dict.fromkeys(version.path for version in self.versions) if each not in {"", self.path}
        ]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of an erasure, with the results of checks that ran after it.

    - `left`: memories that could not be erased, each with the code of its error.
    - `answering`: number of erased memories and versions that can still be read.
    - `same_text`: number of existing memories with an erased text. None if this was not checked.
    - `found`: number of memories that the search still finds. None if nothing was searched for.
    """

    id: str
    at: str
    by: str
    memories: tuple[str, ...]
    versions: int
    is_pending: bool
    answering: int
    same_text: int | None
    found: int | None
    left: dict[str, str]
    reason: str = ""
    audit_end: str = ""


def erase(visit: Visit) -> PageAnswer:
    """Run one step of an erasure.

    Ids and search words are sent in the body of a POST. Only the id of a single memory may be in the URL, for links.
    """
    visit.need("read")
    step = visit.given("step", "check") if visit.method == "POST" else "find" if not visit.query.get("id") else "check"
    query = visit.given("q").strip()
    if step == "find":
        return _find(visit, query)
    ids = list(dict.fromkeys(visit.form.get("id", ()) if visit.method == "POST" else (visit.query["id"],)))
    if not ids:
        raise invalid("select at least one memory")
    if len(ids) > AT_ONCE:
        raise invalid(f"at most {AT_ONCE} memories can be erased at once")
    chosen = [_to_erase(visit, each) for each in ids]
    if step == "erase" and visit.method == "POST":
        return _erase(visit, chosen, query)
    values = {
        "chosen": chosen,
        "sentence": sentence(len(chosen)),
        "versions": sum(len(each.versions) for each in chosen),
        "is_cut": any(len(each.versions) == VERSIONS for each in chosen),
        "proposals": _proposals(visit, ids),
        "q": query,
        "others": [hit.path for hit in _hits(visit, query, False) if hit.memory_id not in ids] if query else [],
    }
    return HtmlPage("erase.html", {**values, "area": "sensitive"}, title="Erase")


def sentence(count: int) -> str:
    """Return the sentence that a person must type to confirm."""
    return f"erase {count} memor{'y' if count == 1 else 'ies'}"


def _find(visit: Visit, query: str) -> HtmlPage:
    is_deep = visit.given("deep") == "1"
    found = {hit.memory_id: hit for hit in _hits(visit, query, is_deep) if hit.memory_id} if query else {}
    rows = list[ToErase]()
    for memory_id, hit in list(found.items())[:AT_ONCE]:
        why = "text" if hit.lines else "path"
        rows.append(replace(_to_erase(visit, memory_id), why=f"the {why} has it"))
    values = {
        "q": query,
        "is_deep": is_deep,
        "rows": rows,
        "more": max(len(found) - AT_ONCE, 0),
        "receipts": _receipts(visit),
    }
    return HtmlPage("erase_find.html", {**values, "area": "sensitive"}, title="Erase")


def _hits(visit: Visit, query: str, is_deep: bool) -> Sequence[Any]:
    """Find the memories that contain all words as written. With `is_deep`, search earlier versions too."""
    return visit.store.search(query, mode="all", history=is_deep, limit=None).hits


def _to_erase(visit: Visit, memory_id: str) -> ToErase:
    versions = visit.store.history.log(memory_id=memory_id, limit=VERSIONS)
    if not versions:
        raise not_found("memory")
    try:
        present = core_of(visit.store).peek(read_memory(memory_id))[0].path
    except NotFound:
        present = None
    return ToErase(memory_id, versions, present)


def _proposals(visit: Visit, ids: Sequence[str]) -> int:
    pending = visit.store.review.pending()
    return sum(any(change.memory_id in ids for change in each.changes) for each in pending)


def _erase(visit: Visit, chosen: Sequence[ToErase], query: str) -> PageAnswer:
    if visit.given("typed").strip() != sentence(len(chosen)):
        raise invalid(f"type `{sentence(len(chosen))}` to confirm; nothing was removed")
    visit.check_key()
    core = core_of(visit.store)
    reason = core.redacted(visit.given("reason").strip()[:_REASON_CHARS], core.settings())
    done, left, versions, is_pending = list[ToErase](), dict[str, str](), 0, False
    for each in chosen:
        try:
            removed = visit.store.history.erase(memory_id=each.memory_id)
        except RetentiveError as error:
            left[each.memory_id] = error.code
            continue
        done.append(each)
        versions += removed.versions - (each.present is not None)  # the erasure itself adds a version, a deletion
        is_pending = removed.pending
    if not done:
        raise invalid(f"nothing was erased ({', '.join(sorted(set(left.values())))})")
    receipt = _checked(visit, done, query)
    receipt = replace(receipt, versions=versions, is_pending=is_pending, left=left, reason=reason)
    return Redirect(visit.url("receipts", _kept(visit, receipt).id))


def _checked(visit: Visit, done: Sequence[ToErase], query: str) -> Receipt:
    """Return a receipt that says whether the erased ids and texts, and the words of `query`, can still be found."""
    core = core_of(visit.store)
    ids = {each.memory_id for each in done}
    versions = [version for each in done for version in each.versions]
    hashes = {version.sha256 for version in versions if version.sha256}

    def work(snapshot: Snapshot) -> tuple[int, int | None]:
        answering = sum(_answers(snapshot, version.id) for version in versions)
        answering += sum(next(snapshot.versions(memory_id=each, limit=1), None) is not None for each in ids)
        if snapshot.usage().memories > COMPARED:
            return answering, None
        return answering, sum(memory.sha256 in hashes for memory in snapshot.memories(ROOT))

    answering, same_text = core.peek(Read("erase", work))
    return Receipt(
        id=sortable_id("erasure_", now_us()),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        by=str(visit.caller.actor),
        memories=tuple(each.memory_id for each in done),
        versions=0,
        is_pending=False,
        answering=answering,
        same_text=same_text,
        found=len(_hits(visit, query, False)) if query else None,
        left={},
    )


def _answers(snapshot: Snapshot, version_id: str) -> bool:
    try:
        snapshot.version(version_id)
    except NotFound:
        return False
    return True


def _kept(visit: Visit, receipt: Receipt) -> Receipt:
    """Store the receipt. If the store has an audit log, also write an audit entry for the receipt."""
    core = core_of(visit.store)
    if visit.store.settings().audit:
        details = {"receipt": receipt.id, "memories": list(receipt.memories), "reason": receipt.reason}
        core.found(AuditOnly("erase.receipt", details=details))
        receipt = replace(receipt, audit_end=str(core.read(head_of)))
    key = f"{visit.info.id}.{receipt.id}"
    visit.location.opened.records.put(RECEIPT, key, json.dumps(asdict(receipt)))
    return receipt


def _receipts(visit: Visit) -> list[Receipt]:
    return list(_listed(visit))[: -RECEIPTS - 1 : -1]


def _listed(visit: Visit) -> Iterator[Receipt]:
    start = f"{visit.info.id}."
    for _, text in takewhile(
        lambda found: found[0].startswith(start), visit.location.opened.records.list(RECEIPT, after=start)
    ):
        yield _parsed(text)


def _parsed(text: str) -> Receipt:
    given = json.loads(text)
    return Receipt(**{**given, "memories": tuple(given["memories"])})


def show_receipt(visit: Visit) -> PageAnswer:
    """Show a receipt. With `format=json`, send it as a file."""
    receipt_id = visit.ids["receipt_id"]
    try:
        text = visit.location.opened.records.get(RECEIPT, f"{visit.info.id}.{receipt_id}")
    except RetentiveError:  # an id that no record can have
        text = None
    if text is None:
        raise not_found("receipt")
    if visit.query.get("format") == "json":
        return Download(f"{receipt_id}.json", iter([text.encode()]), "application/json")
    found = _parsed(text)
    is_proven = not (found.answering or found.found or found.is_pending or found.left or found.same_text)
    return HtmlPage("receipt.html", {"receipt": found, "is_proven": is_proven, "area": "sensitive"}, title="Erased")
