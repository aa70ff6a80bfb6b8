"""Cursors for the pages of a list. Every server process accepts them, but only for the list that they came from."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence

from retentive.server.errors import HttpError, invalid

PREFIX = "page_"
_DIGEST_CHARS = 16


def encode(place: Sequence[str], of: str) -> str:
    """Return the cursor of the next page of a list.

    `place` says where the next page begins. `of` identifies the list: memory store, route and filters.
    """
    text = json.dumps([_digest(of), *place], ensure_ascii=False, separators=(",", ":"))
    return PREFIX + base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii").rstrip("=")


def decode(page: str, of: str, size: int) -> list[str]:
    """Return the `place` that was encoded in a cursor. The place has `size` parts.

    Raises `HttpError` 400 if the cursor is malformed or came from another list.
    """
    body = page.removeprefix(PREFIX) if page.startswith(PREFIX) else "!"
    try:
        found = json.loads(base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise invalid("page: must be the next_page of an earlier answer") from None
    if not isinstance(found, list) or len(found) != size + 1 or not all(isinstance(each, str) for each in found):
        raise invalid("page: must be the next_page of an earlier answer")
    if found[0] != _digest(of):
        raise invalid("page: the cursor belongs to another list, or to a list with other filters")
    return found[1:]


def expired() -> HttpError:
    """Return the error for a list that has changed too much to be continued from a cursor."""
    return invalid("page: the list has changed and cannot be continued; start again without page", "cursor_expired")


def start_of(page: str | None, of: str) -> str:
    """Return the key after which a page begins. It is empty for the first page."""
    return "" if page is None else decode(page, of, 1)[0]


def next_of(last: str | None, of: str) -> str | None:
    """Return the cursor of the page that follows the key `last`. Return None if there is no such page."""
    return None if last is None else encode([last], of)


def _digest(of: str) -> str:
    return hashlib.sha256(of.encode("utf-8")).hexdigest()[:_DIGEST_CHARS]
