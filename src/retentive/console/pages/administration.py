"""Pages for the audit log and the API keys."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from retentive.console.figures import audit_page
from retentive.console.pages.stores import VERIFIED, note_check
from retentive.console.visits import BASE, HtmlPage, PageAnswer, Redirect, Visit, number
from retentive.errors import Conflict, InvalidInput
from retentive.server.errors import invalid
from retentive.server.handlers import keys
from retentive.server.handlers.administration import verify_audit
from retentive.server.keys import SCOPES
from retentive.wire.keys import KeyCreation, KeyUpdate

ROWS = 50
_SEQ = re.compile(r"[0-9]{12}")


def audit(visit: Visit) -> PageAnswer:
    """Show a page of the audit log, newest entries first. With `verify=1`, verify the log."""
    before, expect = visit.query.get("before", ""), visit.query.get("expect", "").strip()[:100]
    if before and not _SEQ.fullmatch(before):
        raise invalid("before: must be the sequence number of an audit entry")
    verified = None
    if visit.query.get("verify") == "1":
        verified = verify_audit(visit.call(), expect)
        note_check(visit.location.opened.records, VERIFIED, visit.info.id, not verified.is_sound)
    page = audit_page(visit.store, before, ROWS)
    values = {
        "entries": page.items,
        "following": page.next,
        "expect": expect,
        "is_on": visit.store.settings().audit,
        "verified": verified,
        "area": "audit",
    }
    return HtmlPage("audit.html", values, title="Audit log")


def list_keys(visit: Visit) -> PageAnswer:
    """Show the API keys of the workspace."""
    return _keys(visit, None)


def _keys(visit: Visit, made: object) -> PageAnswer:
    found = keys.list_api_keys(visit.call(), limit=ROWS, after_id=visit.query.get("after"))
    following = found.last_id if found.has_more else None
    values = {"keys": found.data, "made": made, "scopes": SCOPES, "following": following}
    return HtmlPage("keys.html", values, title="API keys")


def create_key(visit: Visit) -> PageAnswer:
    """Create an API key, and show its text once."""
    visit.check_key()
    days = number(visit.given("days").strip(), 1, 36_500, 0)
    principal = visit.given("user").strip()
    body = {
        "name": visit.given("name").strip(),
        "scopes": list(visit.form.get("scope", ())),
        "stores": visit.given("stores").split(),
        "paths": visit.given("paths").split(),
        "act_as": visit.given("act_as").split(),
        "principal": {"type": "user_actor", "user_id": principal} if principal else None,
        "expires_at": datetime.now(UTC) + timedelta(days=days) if days else None,
        "rate_limit": visit.given("rate").strip() or None,
    }
    return _keys(visit, keys.create_api_key(visit.call(), KeyCreation.read(body)))


def archive_key(visit: Visit) -> PageAnswer:
    """Revoke an API key."""
    visit.check_key()
    try:
        keys.update_api_key(visit.call(api_key_id=visit.given("id")), KeyUpdate.read({"status": "archived"}))
    except Conflict:
        raise InvalidInput("the key was changed meanwhile; open the page again") from None
    return Redirect(f"{BASE}/keys")
