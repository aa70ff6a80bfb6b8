"""Table of all pages and actions. Each one needs the scope that the same operation needs in the HTTP API."""

from __future__ import annotations

from retentive.console.pages import (
    administration,
    editing,
    history,
    memory,
    removal,
    review,
    search,
    settings,
    stores,
    tree,
    undo,
    usage,
)
from retentive.console.visits import PageRoute

_STORE = "/s/{store}"
_PATH = "{path:path}"

READING = (
    PageRoute("GET", "/", "read", stores.list_stores),
    PageRoute("GET", "/search", "read", search.search_all),
    PageRoute("POST", "/search", "read", search.search_all),
    PageRoute("GET", _STORE, "read", tree.root),
    PageRoute("GET", f"{_STORE}/go", "read", tree.go),
    PageRoute("GET", f"{_STORE}/tree", "read", tree.root),
    PageRoute("GET", f"{_STORE}/tree/{_PATH}", "read", tree.show_directory),
    PageRoute("GET", f"{_STORE}/children/{_PATH}", "read", tree.children),
    PageRoute("GET", f"{_STORE}/m/{_PATH}", "read", memory.show_memory),
    PageRoute("GET", f"{_STORE}/id/{{memory_id}}", "read", memory.by_id),
    PageRoute("GET", f"{_STORE}/v/{{version_id}}", "read", memory.show_version),
    PageRoute("GET", f"{_STORE}/v/{{version_id}}/download", "read", memory.download),
    PageRoute("GET", f"{_STORE}/compare", "read", history.compare),
    PageRoute("GET", f"{_STORE}/diff/{{pair}}", "read", history.show_versions),
    PageRoute("GET", f"{_STORE}/change/{{revision}}", "read", history.show_change),
    PageRoute("GET", f"{_STORE}/by/{{actor:path}}", "read", history.show_actor),
    PageRoute("GET", f"{_STORE}/since/{_PATH}", "read", history.show_since),
    PageRoute("GET", f"{_STORE}/activity", "read", history.show_activity),
    PageRoute("GET", f"{_STORE}/news", "read", history.show_news, is_poll=True),
    PageRoute("GET", f"{_STORE}/search", "read", search.search),
    PageRoute("POST", f"{_STORE}/search", "read", search.search),
    PageRoute("GET", f"{_STORE}/settings", "read", settings.show_settings),
    PageRoute("GET", f"{_STORE}/stats", "read", usage.stats),
)
WRITING = tuple(
    PageRoute(method, f"{_STORE}/{path}", "write", handler)
    for path, handler in {
        f"edit/{_PATH}": editing.edit,
        "new": editing.create,
        f"move/{_PATH}": editing.rename,
        f"delete/{_PATH}": editing.delete,
        "undo": undo.undo,
        "restore": undo.restore,
    }.items()
    for method in ("GET", "POST")
)
REVIEWING = (
    PageRoute("GET", f"{_STORE}/review", "review", review.queue),
    PageRoute("GET", f"{_STORE}/review/{{proposal_id}}", "review", review.show_proposal),
    PageRoute("POST", f"{_STORE}/decide", "review", review.decide),
    PageRoute("GET", f"{_STORE}/trust", "review", review.trust),
    PageRoute("GET", f"{_STORE}/trust/confirm", "review", review.confirm),
    PageRoute("POST", f"{_STORE}/trust/confirm", "review", review.confirm),
    PageRoute("POST", f"{_STORE}/trust/quarantine", "admin", review.quarantine),
)
REMOVING = (
    PageRoute("GET", f"{_STORE}/sensitive", "erase", removal.sensitive),
    PageRoute("GET", f"{_STORE}/redact", "erase", removal.redact),
    PageRoute("POST", f"{_STORE}/redact", "erase", removal.redact),
    PageRoute("GET", f"{_STORE}/erase", "erase", removal.erase),
    PageRoute("POST", f"{_STORE}/erase", "erase", removal.erase),
)
ADMINISTERING = (
    PageRoute("GET", "/stores/new", "admin", stores.create_store),
    PageRoute("POST", "/stores/new", "admin", stores.create_store),
    PageRoute("GET", f"{_STORE}/manage", "admin", stores.manage_store),
    PageRoute("POST", f"{_STORE}/manage", "admin", stores.manage_store),
    PageRoute("POST", f"{_STORE}/settings", "admin", settings.change_settings),
    PageRoute("GET", f"{_STORE}/audit", "admin", administration.audit),
    PageRoute("GET", f"{_STORE}/export", "admin", administration.show_export),
    PageRoute("GET", f"{_STORE}/export/file", "admin", administration.export_file),
    PageRoute("GET", "/backup", "admin", administration.show_backup),
    PageRoute("GET", "/backup/file", "admin", administration.backup_file),
    PageRoute("GET", "/keys", "admin", administration.list_keys),
    PageRoute("POST", "/keys/create", "admin", administration.create_key),
    PageRoute("POST", "/keys/archive", "admin", administration.archive_key),
    PageRoute("GET", "/health", "admin", stores.health),
)
PAGES: tuple[PageRoute, ...] = (*READING, *WRITING, *REVIEWING, *REMOVING, *ADMINISTERING)
