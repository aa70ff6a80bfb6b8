"""Pages for the erasure of memories. The steps are: find, check and confirm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from retentive.console.visits import HtmlPage, PageAnswer, Visit, not_found
from retentive.errors import NotFound, RetentiveError
from retentive.server.errors import invalid
from retentive.storage.contract import Version
from retentive.store import core_of
from retentive.store.by_id import read_memory

AT_ONCE = 100
"""Maximum number of memories in one erasure."""
VERSIONS = 1_000


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


def _find(visit: Visit, query: str, **result: object) -> HtmlPage:
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
        "erased": 0,
        "left": {},
        **result,
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
    left, versions, is_pending = dict[str, str](), 0, False
    for each in chosen:
        try:
            removed = visit.store.history.erase(memory_id=each.memory_id)
        except RetentiveError as error:
            left[each.memory_id] = error.code
            continue
        versions += removed.versions - (each.present is not None)  # the erasure itself adds a version, a deletion
        is_pending = removed.pending
    if len(left) == len(chosen):
        raise invalid(f"nothing was erased ({', '.join(sorted(set(left.values())))})")
    return _find(
        visit, query, erased=len(chosen) - len(left), erased_versions=versions, is_pending=is_pending, left=left
    )
