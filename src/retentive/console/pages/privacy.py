"""Pages for the scan for sensitive values, and for the redaction of versions."""

from __future__ import annotations

from retentive.console.overview import SCANNED, note_check
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, not_found
from retentive.errors import NotFound
from retentive.server.errors import invalid
from retentive.wire.base import VERSION_ID


def sensitive(visit: Visit) -> PageAnswer:
    """With `scan=1`, scan the store and show the kinds and paths of sensitive values. The values are never shown."""
    visit.need("read")
    findings = visit.store.scan() if visit.query.get("scan") == "1" else None
    if findings is not None:
        note_check(visit.location.opened.records, SCANNED, visit.info.id, len(findings))
    return HtmlPage("sensitive.html", {"findings": findings, "area": "sensitive"}, title="Sensitive values")


def redact(visit: Visit) -> PageAnswer:
    """Ask for confirmation. With POST and the typed word, redact one version."""
    version_id = visit.given("version") or visit.query.get("version", "")
    if not VERSION_ID.fullmatch(version_id):
        raise not_found("memory version")
    if visit.method != "POST":
        return HtmlPage("redact.html", {"version_id": version_id, "area": "sensitive"}, title="Redact")
    if visit.given("typed").strip() != "redact":
        raise invalid("type the word `redact` to confirm; nothing was removed")
    visit.check_key()
    try:
        visit.store.history.redact([version_id])
    except NotFound:
        raise not_found("memory version") from None
    return Redirect(visit.url("sensitive"))
