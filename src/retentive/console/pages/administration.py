"""Pages for the audit log, API keys and sign-ins; downloads: exports of a store, backups of what the key may see."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from retentive.console.figures import audit_page
from retentive.console.pages.stores import VERIFIED, note_check, stores_of
from retentive.console.rendering import BASE
from retentive.console.visits import Visit, download, page, redirect
from retentive.engine.operation import audit_only
from retentive.errors import Conflict, InvalidInput, RetentiveError
from retentive.server.errors import invalid
from retentive.server.handlers import access, stores
from retentive.server.handlers.stores import verify_audit
from retentive.server.rights import SCOPES
from retentive.server.sessions import Session
from retentive.store import core_of
from retentive.transfer.export import back_up
from retentive.wire.stores import KeyCreation, KeyUpdate

ROWS, MAX_SESSIONS = 50, 500
FORMATS: Mapping[stores.Format, str] = {"tar.zst": "tar.zst", "tar": "tar", "files": "files.tar"}
"""Formats of an export, each with the ending of the file name."""
_SEQ = re.compile(r"[0-9]{12}")


@page("GET", "audit", "admin", "audit")
def audit(visit: Visit) -> Response:
    """Show a page of the audit log, newest entries first. With `verify=1`, verify the log."""
    before, expect = _before(visit), visit.query.get("expect", "").strip()[:100]
    verified = None
    if visit.query.get("verify") == "1":
        verified = verify_audit(visit.call(), expect)
        note_check(visit, VERIFIED, not verified.is_sound)
    found, is_on = audit_page(visit.store, before, ROWS), visit.store.settings().audit
    values = {"entries": found.items, "following": found.next, "expect": expect, "is_on": is_on, "verified": verified}
    return visit.page("audit.html", "Audit log", **values)


def _before(visit: Visit) -> str:
    before = visit.query.get("before", "")
    if before and not _SEQ.fullmatch(before):
        raise invalid("before: must be the sequence number of an audit entry")
    return before


@page("GET", "/keys", "admin", is_of_workspace=True)
@page("POST", "/keys/create", "admin", is_of_workspace=True)
def keys(visit: Visit) -> Response:
    """Show the API keys of the workspace. With POST, create an API key and show its text once."""
    made, days, principal = None, visit.given("days").strip(), visit.given("user").strip()
    if visit.is_post:
        visit.check_key()
        if days and not (days.isascii() and days.isdigit() and 0 < int(days[:9]) <= 36_500):
            raise invalid("days: must be a number from 1 to 36,500")
        body = {
            "name": visit.given("name").strip(),
            "scopes": list(visit.form.get("scope", ())),
            **{name: visit.given(name).split() for name in ("stores", "paths", "act_as")},
            "principal": {"type": "user_actor", "user_id": principal} if principal else None,
            "expires_at": datetime.now(UTC) + timedelta(days=int(days)) if days else None,
            "rate_limit": visit.given("rate").strip() or None,
        }
        made = access.create_api_key(visit.call(), KeyCreation.read(body))
    found = access.list_api_keys(visit.call(), limit=ROWS, after_id=visit.query.get("after"))
    following = found.last_id if found.has_more else None
    return visit.page("keys.html", "API keys", keys=found.data, made=made, scopes=SCOPES, following=following)


@page("POST", "/keys/archive", "admin", is_of_workspace=True)
def archive_key(visit: Visit) -> Response:
    """Revoke an API key."""
    visit.check_key()
    try:
        access.update_api_key(visit.call(api_key_id=visit.given("id")), KeyUpdate.read({"status": "archived"}))
    except Conflict:
        raise InvalidInput("the key was changed meanwhile; open the page again") from None
    return redirect(f"{BASE}/keys")


@page("GET", "/sessions", "read")
def sessions(visit: Visit) -> Response:
    """Show the person's open sign-ins. An administrator sees those of the workspace, and what happened to sign-ins."""
    sees_all, own = visit.manages_workspace, visit.caller.workspace_id
    found = visit.location.opened.records.entries(_before(visit), ROWS)
    entries = [each for each in found.items if sees_all and each.facts.get("workspace") == own]
    values = {"entries": entries, "following": found.next if sees_all else None, "sees_all": sees_all}
    return visit.page("sessions.html", "Sign-ins", rows=_sessions(visit)[:MAX_SESSIONS], **values)


@page("POST", "/sessions/end", "read")
def end_sessions(visit: Visit) -> Response:
    """End one sign-in of those that the person sees, or with `actor` all of an actor."""
    chosen, actor = visit.given("id"), visit.given("actor")
    ended = [each for each in _sessions(visit) if (each.actor == actor if actor else each.id == chosen)]
    visit.sessions.end_of(ended, by=str(visit.caller.key.actor), address=visit.address)
    return redirect(f"{BASE}/sessions")


def _sessions(visit: Visit) -> list[Session]:
    key = visit.caller.key
    found = visit.sessions.open(key.workspace_id, None if visit.manages_workspace else str(key.actor))
    return [each for each in found if key.joins_groups or each.key == key.id]


@page("GET", "export", "admin")
def export_file(visit: Visit) -> Response:
    """Send an export as a file. The format decides whether it has the history or only the memories as plain files."""
    wanted = next((each for each in FORMATS if each == visit.query.get("format", "tar.zst")), None)
    if wanted is None:
        raise invalid("format: must be tar.zst, tar or files")
    found = stores.export_store(visit.call(), wanted)
    return download(f"{visit.info.id}.{FORMATS[wanted]}", found.file, found.media_type)


@page("GET", "/backup", "admin")
def backup_file(visit: Visit) -> Response:
    """Send a backup of all memory stores that the key may see, as one file."""
    ids = [each.id for each in stores_of(visit, "admin", is_archived=True)]
    if not ids:  # for an empty list, `back_up` would back up all stores of the location
        raise invalid("there is no memory store to back up")
    for store_id in ids:
        with suppress(RetentiveError):  # an encrypted store without its key is backed up too, but gets no audit entry
            core_of(visit.location.store(store_id, visit.caller, is_whole=True)[1]).result_of(audit_only("backup"))
    with tempfile.TemporaryDirectory(prefix="retentive-backup-") as directory:
        path = os.path.join(directory, "backup.tar.zst")
        back_up(visit.location.opened.backend, path, stores=ids)
        raw = open(path, "rb")  # noqa: SIM115 - the answer closes it; the open file stays readable
    name = f"retentive-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.zst"
    return download(name, raw, "application/zstd")
