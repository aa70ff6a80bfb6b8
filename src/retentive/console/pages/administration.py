"""Pages for settings, audit log, API keys and health."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import UTC, datetime, timedelta

import retentive
from retentive.audit.chain import Head, entries_page, head_of
from retentive.audit.verify import Verified, verify
from retentive.console.overview import NEAR, VERIFIED, fullness, note_check
from retentive.console.progress import ReportDone, steps_of
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit, call_of, number
from retentive.errors import Conflict, InvalidInput, RetentiveError
from retentive.server.errors import invalid
from retentive.server.handlers import keys
from retentive.server.keys import SCOPES
from retentive.store import core_of
from retentive.values.settings import DEFAULTS, Settings
from retentive.wire.keys import KeyCreation, KeyUpdate

ENTRIES = 200
_SEQ = re.compile(r"[0-9]{12}")
_HEAD_CHARS = 100


def settings(visit: Visit) -> PageAnswer:
    """Show the settings. With POST, change them. Each value is JSON, and an empty value restores the default."""
    if visit.method == "POST":
        visit.need("admin")
        visit.check_key()
        present = visit.store.settings()
        changes = {
            name: value for name, value in _typed(visit).items() if value is None or value != _plain(present, name)
        }
        visit.store.change_settings(changes)
        return Redirect(visit.url("settings"))
    found = visit.store.settings()
    rows = [
        {
            "name": each.name,
            "text": each.metadata["text"],
            "value": json.dumps(_plain(found, each.name)),
            "is_default": _plain(found, each.name) == _plain(DEFAULTS, each.name),
        }
        for each in dataclasses.fields(Settings)
    ]
    return HtmlPage("settings.html", {"rows": rows, "area": "settings"}, title="Settings")


def _plain(found: Settings, name: str) -> object:
    return json.loads(json.dumps(getattr(found, name)))


def _typed(visit: Visit) -> dict[str, object]:
    """Parse the values in the form. Raises `HttpError` 400 for invalid JSON."""
    found: dict[str, object] = {}
    for each in dataclasses.fields(Settings):
        if each.name not in visit.form:
            continue
        text = visit.given(each.name).strip()
        try:
            found[each.name] = json.loads(text) if text else None
        except (ValueError, RecursionError):
            raise invalid(f'{each.name}: the value must be JSON, such as 10, true or ["session:*"]') from None
    return found


def audit(visit: Visit) -> PageAnswer:
    """Show a page of the audit log, newest entries first. With `verify=1`, verify the log and show the progress."""
    core, before = core_of(visit.store), visit.query.get("before", "")
    if before and not _SEQ.fullmatch(before):
        raise invalid("before: must be the sequence number of an audit entry")
    page = core.read(lambda snapshot: entries_page(snapshot, before, ENTRIES, newest_first=True))
    expect = visit.query.get("expect", "").strip()[:_HEAD_CHARS]
    values: dict[str, object] = {
        "entries": page.items,
        "following": page.next,
        "expect": expect,
        "is_on": visit.store.settings().audit,
        "verifying": None,
        "area": "audit",
    }
    if visit.query.get("verify") != "1":
        return HtmlPage("audit.html", values, title="Audit log")
    expected = [Head.parse(expect)] if expect else []

    def work(progress: ReportDone) -> Verified:
        found = core.read(lambda snapshot: verify(snapshot, visit.info.id, expected, progress=progress))
        note_check(visit.location.opened.records, VERIFIED, visit.info.id, len(found.findings))
        return found

    values |= {"verifying": steps_of(work), "total": core.read(head_of).seq}
    return HtmlPage("audit.html", values, title="Audit log", is_streamed=True)


def list_keys(visit: Visit) -> PageAnswer:
    """Show the API keys of the workspace."""
    return _keys(visit, None)


def _keys(visit: Visit, made: object) -> PageAnswer:
    found = keys.list_api_keys(call_of(visit), limit=1_000)
    return HtmlPage("keys.html", {"keys": found.data, "made": made, "scopes": SCOPES}, title="API keys")


def create_key(visit: Visit) -> PageAnswer:
    """Create an API key, and show its text once."""
    visit.check_key()
    days = number(visit.given("days").strip(), 1, 36_500, 0)
    principal = visit.given("user").strip()
    made = keys.create_api_key(
        call_of(visit),
        KeyCreation.read(
            {
                "name": visit.given("name").strip(),
                "scopes": list(visit.form.get("scope", ())),
                "stores": visit.given("stores").split(),
                "paths": visit.given("paths").split(),
                "act_as": visit.given("act_as").split(),
                "principal": {"type": "user_actor", "user_id": principal} if principal else None,
                "expires_at": datetime.now(UTC) + timedelta(days=days) if days else None,
                "rate_limit": visit.given("rate").strip() or None,
            }
        ),
    )
    return _keys(visit, made)


def archive_key(visit: Visit) -> PageAnswer:
    """Revoke an API key."""
    visit.check_key()
    call = call_of(visit, api_key_id=visit.given("id"))
    try:
        keys.update_api_key(call, KeyUpdate.read({"status": "archived"}))
    except Conflict:
        raise InvalidInput("the key was changed meanwhile; open the page again") from None
    return Redirect("/console/keys")


def health(visit: Visit) -> PageAnswer:
    """Show the stores of the workspace that need attention, and the version of the server."""
    troubled = []
    found = visit.location.opened.list_stores(workspace=visit.caller.workspace_id, limit=200)
    for info in filter(visit.caller.sees, found.items):
        try:
            store = visit.opened(info)
            full = fullness(info, store.settings())
            if full >= NEAR:
                troubled.append((info, f"{full} % of a limit"))
        except RetentiveError as error:
            troubled.append((info, error.code))
    values = {"troubled": troubled, "version": retentive.__version__, "count": len(found.items)}
    return HtmlPage("health.html", values, title="Health")
