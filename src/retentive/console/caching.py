"""ETags for console pages that a browser may cache. An ETag is a digest of the store's state, the key and the build.

The ETag is compared before the page is rendered. Pages of a store with an audit log have no ETag, because each view
must add an audit entry.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources

import retentive
from retentive.console.visits import PageRoute, Visit
from retentive.engine.events import newest_event
from retentive.engine.operation import Read
from retentive.errors import RetentiveError
from retentive.server.errors import HttpError
from retentive.storage.contract import Snapshot
from retentive.store import core_of

KEPT = {"cache-control": "private, no-cache", "vary": "cookie"}
_FIXED = re.compile(r"r[0-9]{1,18}|memver_[0-9a-f]{1,64}")
_TAG_CHARS = 32
_LISTED = re.compile(r'(?:W/)?"([0-9a-f]{1,64})"')


def tag_of(visit: Visit, route: PageRoute, token: str) -> str:
    """Return the ETag of a page, or an empty string if the browser may not cache the page.

    `token` identifies the sign-in. The state of the store is read before the page is rendered, so a page may be newer
    than its ETag, but never older.
    """
    at = visit.query.get("at", "")
    if not route.is_kept or visit.method not in {"GET", "HEAD"} or (at and not _FIXED.fullmatch(at)):
        return ""
    try:
        state = _state(visit)
        more = route.state(visit) if state and route.state is not None else ""
    except (HttpError, RetentiveError):
        return ""  # the page itself reports the error
    if not state:
        return ""
    key = visit.caller.key
    parts = (
        *state,
        more,
        token,
        key.id,
        ",".join(key.scopes),
        ",".join(key.paths),
        route.path,
        repr(sorted(visit.ids.items())),
        repr(sorted(visit.query.items())),
        datetime.now(UTC).date().isoformat(),  # pages show times of today without the date
        build(),
    )
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:_TAG_CHARS]


def _state(visit: Visit) -> tuple[str, ...]:
    """Return the state on which the pages of a store depend, or an empty tuple if the store has an audit log."""
    settings = visit.store.settings()
    if settings.audit:
        return ()

    def work(snapshot: Snapshot) -> tuple[int, str]:
        return snapshot.state.revision, newest_event(snapshot)

    revision, event = core_of(visit.store).found(Read("feed", work, needs_external_edits=True))
    return repr(visit.info), str(revision), event, repr(settings), str(visit.waiting)


@lru_cache(maxsize=1)
def build() -> str:
    """Return the version of the package, followed by a digest of the templates and static files."""
    found = hashlib.sha256()
    for folder in ("templates", "static"):
        for each in sorted(resources.files("retentive.console").joinpath(folder).iterdir(), key=lambda file: file.name):
            found.update(each.read_bytes())
    return f"{retentive.__version__}-{found.hexdigest()[:16]}"


def is_known(headers: Mapping[str, str], tag: str) -> bool:
    """Return whether the request headers show that the browser already has the page with this ETag."""
    return bool(tag) and tag in _LISTED.findall(headers.get("if-none-match", ""))


def kept(tag: str) -> dict[str, str]:
    """Return the headers of a page that the browser may cache, but must revalidate before each use."""
    return {**KEPT, "etag": f'"{tag}"'}
