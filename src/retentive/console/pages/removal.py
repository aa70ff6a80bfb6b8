"""Pages that find sensitive values, redact versions, and erase memories (steps: find, check, confirm)."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from retentive.console.figures import paths_of
from retentive.console.pages.stores import SCANNED, note_check
from retentive.console.visits import Visit, page, redirect
from retentive.errors import RetentiveError
from retentive.search.results import Hit
from retentive.server.errors import HttpError, invalid, missing
from retentive.server.handlers.history import check_version_id, redact_memory_version
from retentive.server.handlers.stores import erase_memory
from retentive.values.listing import counted
from retentive.wire.stores import Erasure

ROWS = 50
AT_ONCE = 50
"""Maximum number of memories in one erasure."""
VERSIONS = 1_000


@page("GET", "sensitive", "erase", "sensitive")
def sensitive(visit: Visit) -> Response:
    """With `scan=1`, scan the store and show the kinds and paths of sensitive values. The values are never shown."""
    visit.need("read")
    findings = visit.store.scan() if visit.query.get("scan") == "1" else None
    if findings is not None:
        note_check(visit, SCANNED, len(findings))
    return visit.page("sensitive.html", "Sensitive values", findings=findings, shown=(findings or ())[:ROWS])


@page("GET POST", "redact", "erase", "sensitive")
def redact(visit: Visit) -> Response:
    """Ask for confirmation. With POST and the typed word, redact one version."""
    version_id = visit.asked("version")
    check_version_id(version_id)
    if not visit.is_post:
        about = "Its text, path, size and hash are removed permanently. Actor and time are kept. This cannot be undone."
        action, back, hidden = visit.url("redact"), visit.url("v", version_id), {"version": version_id}
        values = {"name": version_id, "about": about, "typed": "redact", "kind": "danger"}
        return visit.page("ask.html", "Redact a version", action=action, back=back, hidden=hidden, **values)
    visit.check_typed("redact")
    redact_memory_version(visit.call(memory_version_id=version_id))
    return redirect(visit.url("v", version_id))


@page("GET POST", "erase", "erase", "sensitive")
def erase(visit: Visit) -> Response:
    """Run one step of an erasure.

    Ids and search words are sent in the body of a POST. Only the id of a single memory may be in the URL, for links.
    """
    visit.need("read")
    query, step = visit.given("q").strip(), visit.given("step", "check")
    if step == "find" or not (visit.is_post or visit.query.get("id")):
        return _find(visit, query)
    ids = list(dict.fromkeys(visit.form.get("id", ()) if visit.is_post else (visit.query["id"],)))
    if not ids:
        raise invalid("select at least one memory")
    if len(ids) > AT_ONCE:
        raise invalid(f"at most {AT_ONCE} memories can be erased at once")
    chosen, sentence = _to_erase(visit, ids), f"erase {counted(len(ids), 'memory')}"
    if step == "erase":
        visit.check_typed(sentence)
        return _erase(visit, {str(each["id"]): bool(each["is_present"]) for each in chosen}, query)
    pending, versions = visit.store.review.pending(), [int(str(each["versions"])) for each in chosen]
    return _page(
        visit,
        "check",
        query,
        rows=chosen,
        sentence=sentence,
        versions=counted(sum(versions), "version") + (" or more" if VERSIONS in versions else ""),
        proposals=sum(any(change.memory_id in ids for change in each.changes) for each in pending),
        others=[hit.path for hit in _hits(visit, query) if hit.memory_id not in ids] if query else [],
    )


def _page(visit: Visit, step: str, query: str, **values: object) -> Response:
    usual = {"step": step, "q": query, "hits": {}, "erased": "", "left": [], "is_deep": False}
    return visit.page("erase.html", "Erase", **{**usual, **values})


def _find(visit: Visit, query: str, **result: object) -> Response:
    is_deep = visit.given("deep") == "1"
    found = {hit.memory_id: hit for hit in _hits(visit, query, is_deep=is_deep) if hit.memory_id} if query else {}
    rows, more = _to_erase(visit, list(found)[:AT_ONCE]), max(len(found) - AT_ONCE, 0)
    return _page(visit, "find", query, hits=found, rows=rows, more=more, is_deep=is_deep, **result)


def _hits(visit: Visit, query: str, *, is_deep: bool = False) -> Sequence[Hit]:
    """Find the memories that contain all words as written. With `is_deep`, search earlier versions too."""
    return visit.store.search(query, mode="all", history=is_deep, limit=None).hits


def _to_erase(visit: Visit, ids: Sequence[str]) -> list[dict[str, object]]:
    """Return each memory with the number of its versions, its current or last path, and the other paths that it had."""
    present, found = paths_of(visit.store, ids), list[dict[str, object]]()
    for memory_id in ids:
        versions = visit.store.history.log(memory_id=memory_id, limit=VERSIONS)
        if not versions:
            raise missing("memory")
        names = filter(None, [present.get(memory_id), *(each.path for each in versions)])
        path, *earlier = dict.fromkeys(names) or ("",)
        row = {"id": memory_id, "versions": len(versions), "path": path, "earlier": earlier}
        found.append({**row, "is_present": memory_id in present})
    return found


def _erase(visit: Visit, chosen: dict[str, bool], query: str) -> Response:
    """Erase memories. `chosen` says for each id whether the memory is present."""
    left, erased, versions, is_pending = list[dict[str, str]](), 0, 0, False
    body = Erasure.read({"reason": visit.given("reason").strip()} if visit.given("reason").strip() else {})
    for memory_id, is_present in chosen.items():
        try:
            removed = erase_memory(visit.call(memory_id=memory_id), body)
        except (RetentiveError, HttpError) as error:
            left.append({"path": memory_id, "reason": error.code})
            continue
        erased += 1
        versions += removed.versions - is_present  # the erasure itself adds a version, a deletion
        is_pending = removed.pending
    if not erased:
        raise invalid(f"nothing was erased ({', '.join(sorted({each['reason'] for each in left}))})")
    what = f"Erased {counted(erased, 'memory')} with {counted(versions, 'version')}."
    about = "Backups, exports and the logs of database servers may still have the texts."
    if is_pending:
        about += " The storage may keep their bytes until a reader ends; `retentive admin maintain` then removes them."
    return _find(visit, query, erased=what, about=about, left=left)
