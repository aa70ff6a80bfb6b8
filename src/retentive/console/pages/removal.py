"""Pages that find sensitive values, redact versions, and erase memories (steps: find, check, confirm)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retentive.console.figures import paths_of
from retentive.console.pages.stores import SCANNED, note_check
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit
from retentive.errors import RetentiveError
from retentive.search.results import Hit
from retentive.server.errors import HttpError, invalid, missing
from retentive.server.handlers.history import check_version_id, redact_memory_version
from retentive.server.handlers.stores import erase_memory
from retentive.storage.contract import Version

ROWS = 50
AT_ONCE = 50
"""Maximum number of memories in one erasure."""
VERSIONS = 1_000


def sensitive(visit: Visit) -> PageAnswer:
    """With `scan=1`, scan the store and show the kinds and paths of sensitive values. The values are never shown."""
    visit.need("read")
    findings = visit.store.scan() if visit.query.get("scan") == "1" else None
    if findings is not None:
        note_check(visit.location.opened.records, SCANNED, visit.info.id, len(findings))
    shown = None if findings is None else findings[:ROWS]
    values = {"findings": shown, "count": len(findings or ()), "area": "sensitive"}
    return HtmlPage("sensitive.html", values, title="Sensitive values")


def redact(visit: Visit) -> PageAnswer:
    """Ask for confirmation. With POST and the typed word, redact one version."""
    version_id = visit.asked("version")
    check_version_id(version_id)
    if visit.method != "POST":
        return HtmlPage("redact.html", {"version_id": version_id, "area": "sensitive"}, title="Redact")
    if visit.given("typed").strip() != "redact":
        raise invalid("type the word `redact` to confirm; nothing was removed")
    visit.check_key()
    redact_memory_version(visit.call(memory_version_id=version_id))
    return Redirect(visit.url("v", version_id))


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
        known = dict.fromkeys(version.path for version in self.versions)
        return [each for each in known if each not in {"", self.path}]


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
    chosen = _to_erase(visit, dict.fromkeys(ids, ""))
    sentence = f"erase {len(chosen)} memor{'y' if len(chosen) == 1 else 'ies'}"
    if step == "erase" and visit.method == "POST":
        if visit.given("typed").strip() != sentence:
            raise invalid(f"type `{sentence}` to confirm; nothing was removed")
        visit.check_key()
        return _erase(visit, chosen, query)
    pending = visit.store.review.pending()
    values = {
        "chosen": chosen,
        "sentence": sentence,
        "versions": sum(len(each.versions) for each in chosen),
        "is_cut": any(len(each.versions) == VERSIONS for each in chosen),
        "proposals": sum(any(change.memory_id in ids for change in each.changes) for each in pending),
        "q": query,
        "others": [hit.path for hit in _hits(visit, query, False) if hit.memory_id not in ids] if query else [],
        "area": "sensitive",
    }
    return HtmlPage("erase.html", values, title="Erase")


def _find(visit: Visit, query: str, **result: object) -> HtmlPage:
    is_deep = visit.given("deep") == "1"
    found = {hit.memory_id: hit for hit in _hits(visit, query, is_deep) if hit.memory_id} if query else {}
    reasons = {each: f"the {'text' if hit.lines else 'path'} has it" for each, hit in list(found.items())[:AT_ONCE]}
    values = {
        "q": query,
        "is_deep": is_deep,
        "rows": _to_erase(visit, reasons),
        "more": max(len(found) - AT_ONCE, 0),
        "erased": 0,
        "left": {},
        "area": "sensitive",
        **result,
    }
    return HtmlPage("erase_find.html", values, title="Erase")


def _hits(visit: Visit, query: str, is_deep: bool) -> Sequence[Hit]:
    """Find the memories that contain all words as written. With `is_deep`, search earlier versions too."""
    return visit.store.search(query, mode="all", history=is_deep, limit=None).hits


def _to_erase(visit: Visit, reasons: dict[str, str]) -> list[ToErase]:
    present, found = paths_of(visit.store, list(reasons)), []
    for memory_id, why in reasons.items():
        versions = visit.store.history.log(memory_id=memory_id, limit=VERSIONS)
        if not versions:
            raise missing("memory")
        found.append(ToErase(memory_id, versions, present.get(memory_id), why))
    return found


def _erase(visit: Visit, chosen: Sequence[ToErase], query: str) -> PageAnswer:
    left, versions, is_pending = dict[str, str](), 0, False
    for each in chosen:
        try:
            removed = erase_memory(visit.call(memory_id=each.memory_id))
        except (RetentiveError, HttpError) as error:
            left[each.memory_id] = error.code
            continue
        versions += removed.versions - (each.present is not None)  # the erasure itself adds a version, a deletion
        is_pending = removed.pending
    erased = len(chosen) - len(left)
    if not erased:
        raise invalid(f"nothing was erased ({', '.join(sorted(set(left.values())))})")
    return _find(visit, query, erased=erased, erased_versions=versions, is_pending=is_pending, left=left)
