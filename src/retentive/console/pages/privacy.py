"""Sensitive values, redaction of versions, and erasure of memories, with proof."""

from __future__ import annotations

from retentive.audit.chain import head_of
from retentive.console.overview import SCANNED, note_check
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found
from retentive.errors import NotFound
from retentive.server.errors import invalid
from retentive.server.objects import VERSION_ID
from retentive.storage.contract import Memory
from retentive.store import core_of
from retentive.store.by_id import read_memory

VERSIONS = 1_000


def sensitive(visit: Visit) -> PageAnswer:
    """The kinds of sensitive values and their places, after a scan that a person started. Never the values."""
    visit.need("read")
    findings = visit.store.scan() if visit.query.get("scan") == "1" else None
    if findings is not None:
        note_check(visit.location.opened.records, SCANNED, visit.info.id, len(findings))
    return HtmlPage("sensitive.html", {"findings": findings, "area": "sensitive"}, title="Sensitive values")


def redact(visit: Visit) -> PageAnswer:
    """The question; with POST and the typed word, removal of the text of one version."""
    version_id = visit.given("version") or visit.query.get("version", "")
    if not VERSION_ID.fullmatch(version_id):
        raise not_found("memory version")
    if visit.method != "POST":
        return HtmlPage("redact.html", {"version_id": version_id, "area": "sensitive"}, title="Redact")
    if visit.given("typed").strip() != "redact":
        raise invalid("type the word redact to confirm; nothing was removed")
    visit.check_key()
    try:
        visit.store.history.redact([version_id])
    except NotFound:
        raise not_found("memory version") from None
    return Redirect(visit.url("sensitive"))


def erase(visit: Visit) -> PageAnswer:
    """The check before an erasure; with POST, the typed sentence and the key, the erasure and its proof."""
    visit.need("read")
    memory_id = visit.given("id") or visit.query.get("id", "")
    versions = visit.store.history.log(memory_id=memory_id, limit=VERSIONS) if memory_id else []
    if not versions:
        raise not_found("memory")
    names = list(dict.fromkeys(each.path for each in versions if each.path))
    try:
        present: Memory | None = core_of(visit.store).peek(read_memory(memory_id))[0]
    except NotFound:
        present = None
    if visit.method != "POST":
        found = {"memory_id": memory_id, "versions": versions, "names": names, "present": present}
        return HtmlPage("erase.html", {**found, "area": "sensitive"}, title="Erase")
    if visit.given("typed").strip() != "erase 1 memory":
        raise invalid("type `erase 1 memory` to confirm; nothing was removed")
    visit.check_key()
    removed = visit.store.history.erase(memory_id=memory_id)
    values = {
        "memory_id": memory_id,
        "count": removed.versions - (present is not None),  # without the deletion that the erasure adds
        "is_pending": removed.pending,
        "left": len(visit.store.history.log(memory_id=memory_id, limit=1)),
        "is_found": _is_found(visit, memory_id),
        "head": core_of(visit.store).read(head_of) if visit.store.settings().audit else None,
    }
    return HtmlPage("erased.html", {**values, "area": "sensitive"}, title="Erased")


def _is_found(visit: Visit, memory_id: str) -> bool:
    try:
        core_of(visit.store).peek(read_memory(memory_id))
    except NotFound:
        return False
    return True
