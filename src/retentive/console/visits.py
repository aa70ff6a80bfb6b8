"""Requests of signed-in people, and the table of the pages that answer them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import IO, TypeVar
from urllib.parse import quote, unquote

from starlette.responses import RedirectResponse, Response

from retentive.console.figures import number_waiting
from retentive.console.rendering import BASE, ID, PRIVATE, html_page, with_query
from retentive.errors import InvalidInput, NotFound, Refused, RetentiveError
from retentive.server.authorization import Authorization
from retentive.server.calls import NO_STORE, Caller, ClosingResponse, RouteCall, ServedLocation
from retentive.server.errors import HttpError, forbidden, invalid, missing
from retentive.server.keys import TOKEN_PREFIX
from retentive.server.rights import OF_PATHS
from retentive.server.sessions import Sessions
from retentive.storage.contract import StoreInfo
from retentive.store import MemoryStore
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.replies import REPLIES
from retentive.wire.base import PageQuery, moment
from retentive.wire.stores import Scope

INTEGRATION = "console"
"""Name of the console in audit logs and in the provenance of versions."""


class PageCall(RouteCall):
    """Call of a handler of the HTTP API by a page. What it changes is recorded as done through the console."""

    __slots__ = ()

    @property
    def integration(self) -> str:
        """Name of the door in audit logs."""
        return INTEGRATION

    @property
    def store(self) -> MemoryStore:
        """Memory store in the URL. Raises `HttpError` 404 if the caller may not see it."""
        return super().store.through(INTEGRATION)


@dataclass(frozen=True)
class Visit:
    """One request by a signed-in person. `area` is the tab of the page, and `csrf` the token for its forms.

    `place` is the URL to open after a new sign-in, and `scope` the scope that the page needs. `caller` has its rights
    in the memory store that the URL names, if any.
    """

    location: ServedLocation
    sessions: Sessions
    caller: Caller
    method: str
    area: str
    csrf: str
    address: str
    place: str
    scope: Scope
    ids: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    authorization: Authorization | None = None
    """Authorization server for MCP clients. None if the server connects none."""
    base: str | None = None
    """URL at which clients reach the server, if it is known."""

    @cached_property
    def info(self) -> StoreInfo:
        """The memory store that the URL names by its key or id. Raises `HttpError` 404 if the key may not see it."""
        return self.named(unquote(self.ids["store"]))

    def named(self, name: str) -> StoreInfo:
        """Return the memory store with this key or id. Raises `HttpError` 404 if the key may not see it."""
        try:
            if name.startswith(ID):
                found = self.location.info(name)
            else:
                found = self.location.opened.get_store(name, workspace=self.caller.workspace_id)
        except (NotFound, InvalidInput):
            raise missing(NO_STORE) from None
        if not self.caller.sees(found):
            raise missing(NO_STORE)
        return found

    @cached_property
    def store(self) -> MemoryStore:
        """The open memory store that the URL names. Raises `HttpError` like `info`."""
        return self.opened(self.info)

    @cached_property
    def waiting(self) -> int:
        """Number of pending proposals in the memory store. 0 if the key may not review."""
        try:
            return number_waiting(self.store) if self.can("review") else 0
        except RetentiveError:  # the page itself reports the error
            return 0

    def opened(self, info: StoreInfo) -> MemoryStore:
        """Open a memory store that the key may see. Changes are recorded with the actor of the key."""
        is_whole = self.scope not in OF_PATHS
        return self.location.store(info.id, self.caller.within(info), is_whole=is_whole)[1].through(INTEGRATION)

    def call(self, store: StoreInfo | None = None, **ids: str) -> PageCall:
        """Return a call for a handler of the HTTP API: of the memory store in the URL, or of `store`."""
        info = store or (self.info if "store" in self.ids else None)
        own = {} if info is None else {"memory_store_id": info.id}
        caller = self.caller if info is None else self.caller.within(info)
        return PageCall(self.location, caller, self.method, BASE, {**own, **ids}, (self.scope,))

    def listing(self, limit: int, cursor: str | None, **filters: object) -> PageCall:
        """Return a call for the handler of a list: of its page after a cursor."""
        call = self.call()
        call.asked, call.given = PageQuery.read({"limit": limit, "page": cursor}), filters
        return call

    def can(self, scope: Scope) -> bool:
        """Return whether the key has a scope in the memory store of the page or, without one, in any."""
        return self.caller.key.allows_somewhere(scope)

    @property
    def is_post(self) -> bool:
        """True if the person sent a form that may change something."""
        return self.method == "POST"

    @property
    def is_whole(self) -> bool:
        """True if the key may see all paths. Pages show figures of whole stores only to such keys."""
        return not any(each.paths for each in self.caller.key.held)

    @property
    def manages_workspace(self) -> bool:
        """True if the person administers the whole workspace, and not only some memory stores."""
        return self.caller.record.is_admin

    @property
    def can_change(self) -> bool:
        """True if the key may write, and the store that the URL names is not archived."""
        return self.can("write") and self.info.archived_at is None

    @property
    def signed_in_at(self) -> str:
        """Name of the identity provider at which the person signed in. Empty if they did so with a key or a code."""
        return self.caller.key.name if self.caller.key.id.startswith(TOKEN_PREFIX) else ""

    def need(self, scope: Scope) -> None:
        """Raise `HttpError` 403 if the key lacks a scope."""
        if not self.can(scope):
            raise forbidden(f"this page needs an API key with the scope {scope}")

    def given(self, name: str, default: str = "") -> str:
        """Return the value of a field in the form."""
        return next(iter(self.form.get(name, ())), default)

    def asked(self, name: str) -> str:
        """Return the value of a field in the form, or else in the query."""
        return (self.given(name) or self.query.get(name, "")).strip()

    def number(self, name: str, low: int = 1, high: int = 10_000_000) -> int:
        """Return a number in the query, or `low` if it is not given. Raises `HttpError` 400."""
        text = self.query.get(name) or str(low)
        if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
            raise invalid(f"{name}: the number in the URL must be from {low} to {high}")
        return int(text)

    def check_typed(self, sentence: str) -> None:
        """Raise `HttpError` unless the person typed a sentence, and the key again."""
        if self.given("typed").strip() != sentence:
            raise invalid(f"type `{sentence}` to confirm; nothing was changed")
        self.check_key()

    def check_key(self) -> None:
        """Raise `HttpError` 403 unless the person typed the key again."""
        if not self.sessions.is_own_key(self.caller.key, self.given("key"), self.address):
            if self.signed_in_at:
                raise forbidden(
                    f"this needs a fresh sign-in: sign in with {self.signed_in_at} again, within ten minutes"
                )
            raise forbidden("the API key that you typed is not the one you signed in with, so nothing was changed")

    @property
    def memory_path(self) -> str:
        """Path of the memory or directory in the URL. Raises `HttpError` 400 if it is not normalised."""
        path = f"{ROOT}/{self.ids.get('path', '')}".rstrip("/")
        if typed_path(path) != path:
            raise invalid("the path must be in Unicode NFC and must not contain empty names", "invalid_path")
        return path

    @property
    def at(self) -> str | datetime | None:
        """Earlier state that the URL names. None for the current state."""
        named = self.query.get("at")
        return moment(named) if named else None

    def url(self, *parts: str, **query: object) -> str:
        """Return the URL of a page of the memory store. The store has the name that the person's URL has."""
        return with_query("/".join([BASE, "s", quote(self.ids["store"], safe=""), *parts]), **query)

    def proposed_url(self) -> str:
        """Return the URL of the page to open after a change became a proposal: a reviewer sees the queue."""
        return self.url("review" if self.can("review") else "activity")

    def page(self, template: str, title: str, status: int = 200, /, **values: object) -> Response:
        """Return a page: a template with its values, and those of the request."""
        try:
            info = self.info if "store" in self.ids else None
        except (HttpError, RetentiveError):  # the page says so
            info = None
        common = {"visit": self, "info": info, "area": self.area}
        if "path" in self.ids:
            common |= {"path": f"{ROOT}/{self.ids['path']}".rstrip("/")}
        if self.area == "tree":
            common |= {"at": self.query.get("at", "")}
        return html_page(template, title, status, **(common | values))


def digest(value: object) -> str:
    """Return a digest of what a page shows. Its form has it, so that nothing is done that the person has not seen."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def redirect(url: str) -> Response:
    """Return a redirect (status 303) to another page of the console."""
    return RedirectResponse(url, 303, PRIVATE)


def download(
    name: str, content: Iterator[bytes] | IO[bytes], media_type: str = "text/plain; charset=utf-8"
) -> Response:
    """Return a file for the browser to save. The browser never displays it."""
    headers = {
        **PRIVATE,
        "content-security-policy": "sandbox; default-src 'none'",
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
    }
    return ClosingResponse(content, media_type, headers=headers)


H = TypeVar("H", bound=Callable[[Visit], Response])


@dataclass(frozen=True, slots=True)
class PageRoute:
    """One page or action below `/console`, in the tab `area`. `scope` is the scope that the key needs.

    It needs the scope in the memory store of the page or, without one, in any; for `is_of_workspace` in the workspace.
    `is_poll` is true for what pages ask for every few seconds. It does not prolong the sign-in.
    """

    method: str
    path: str
    scope: Scope
    handler: Callable[[Visit], Response]
    area: str
    is_poll: bool = False
    is_of_workspace: bool = False


PAGES: list[PageRoute] = []
"""All pages and actions. Each one needs the scope that the same operation needs in the HTTP API."""


def page(methods: str, path: str, scope: Scope, area: str = "", **options: bool) -> Callable[[H], H]:
    """Return a decorator that adds a page. A path without a slash at the start is one of a memory store."""

    def add(handler: H) -> H:
        whole = path if path.startswith("/") else f"/s/{{store}}/{path}".rstrip("/")
        PAGES.extend(PageRoute(method, whole, scope, handler, area, **options) for method in methods.split())
        return handler

    return add


def typed_path(path: str) -> str:
    """Normalise a path that a person typed. Raises `HttpError` 400."""
    try:
        return MemoryPath.parse(path).text
    except Refused as refusal:
        raise invalid(REPLIES.error(refusal.key, refusal.values).text.removeprefix("Error: "), "invalid_path") from None
