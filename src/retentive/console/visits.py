"""Argument and results of the functions that make pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias
from urllib.parse import quote, urlencode

from retentive.console.overview import Overview, number_waiting
from retentive.console.sessions import Sessions
from retentive.errors import NotFound, RetentiveError
from retentive.server.calls import Caller, RouteCall, ServedLocation
from retentive.server.errors import HttpError, forbidden, invalid, missing
from retentive.storage.contract import StoreInfo
from retentive.store import MemoryStore
from retentive.values.paths import ROOT
from retentive.wire.keys import Scope

BASE = "/console"
INTEGRATION = "console"
"""Name of the console in audit logs and in the provenance of versions."""


@dataclass(frozen=True)
class Visit:
    """One request by a signed-in person."""

    location: ServedLocation
    sessions: Sessions
    caller: Caller
    method: str
    ids: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    overview: Overview = field(default_factory=Overview, repr=False)

    @cached_property
    def info(self) -> StoreInfo:
        """The memory store that the URL names. Raises `HttpError` 404 if the key may not see it."""
        try:
            found = self.location.info(self.ids["store_id"])
        except NotFound:
            raise missing("memory store") from None
        if not self.caller.sees(found):
            raise missing("memory store")
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
        return self.location.store(info.id, self.caller)[1].through(INTEGRATION)

    def can(self, scope: Scope) -> bool:
        """Return whether the key has a scope."""
        return self.caller.key.allows(scope)

    @property
    def is_whole(self) -> bool:
        """True if the key may see all paths. Pages show figures of whole stores only to such keys."""
        return not self.caller.key.paths

    @property
    def can_change(self) -> bool:
        """True if the key may write, and the store that the URL names is not archived."""
        return self.can("write") and self.info.archived_at is None

    def need(self, scope: Scope) -> None:
        """Raise `HttpError` 403 if the key lacks a scope."""
        if not self.can(scope):
            raise forbidden(f"the API key needs the scope {scope}")

    def given(self, name: str, default: str = "") -> str:
        """Return the value of a field in the form."""
        return next(iter(self.form.get(name, ())), default)

    def check_key(self) -> None:
        """Raise `HttpError` 403 unless the person typed the key again."""
        if not self.sessions.is_own_key(self.caller.key, self.given("key")):
            raise forbidden("the API key that you typed is not the one you signed in with, so nothing was changed")

    @property
    def memory_path(self) -> str:
        """Path of the memory or directory in the URL."""
        return tool_path(self.ids.get("path", ""))

    def url(self, *parts: str, **query: str | int | None) -> str:
        """Return the URL of a page of the memory store."""
        return store_url(self.info.id, *parts, **query)

    def proposed_url(self) -> str:
        """Return the URL of the page to open after a change became a proposal.

        If the key may review, this is the review page, otherwise the activity page.
        """
        return self.url("review" if self.can("review") else "activity")


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """Answer in HTML: a template and its values. A streamed page is sent while its template is rendered."""

    template: str
    values: Mapping[str, object] = field(default_factory=dict)
    status: int = 200
    title: str = ""
    is_streamed: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """Redirect (status 303) to another page of the console."""

    url: str


@dataclass(frozen=True, slots=True)
class Download:
    """File for the browser to save. The browser never displays it."""

    name: str
    pieces: Iterator[bytes]
    media_type: str = "text/plain; charset=utf-8"


PageAnswer: TypeAlias = "HtmlPage | Redirect | Download | None"
PageHandler: TypeAlias = Callable[[Visit], PageAnswer]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """One page or action below `/console`. `scope` is the scope that the key needs.

    `is_poll` is true for what pages ask for every few seconds. It does not prolong the sign-in. The handler returns
    None if there is nothing new.
    """

    method: str
    path: str
    scope: Scope
    handler: PageHandler
    is_poll: bool = False


def call_of(visit: Visit, **ids: str) -> RouteCall:
    """Convert the request to a call of the HTTP API, so that the handlers of the API can answer it."""
    return RouteCall(visit.location, visit.caller, visit.method, BASE, ids=ids)


def tool_path(path: str) -> str:
    """Convert a path in a URL to a memory path."""
    return f"{ROOT}/{path}".rstrip("/")


def page_path(text: str) -> str:
    """Convert a memory path to a path in a URL, percent-encoded."""
    return quote(text.removeprefix(ROOT).lstrip("/"), safe="/")


def store_url(store_id: str, *parts: str, **query: str | int | None) -> str:
    """Return the URL of a page of a memory store. `parts` must be percent-encoded already."""
    asked = {name: value for name, value in query.items() if value not in {None, ""}}
    return "/".join([BASE, "s", store_id, *parts]) + (f"?{urlencode(asked)}" if asked else "")


def number(text: str, low: int, high: int, default: int) -> int:
    """Parse a number in the query. Raises `HttpError` 400."""
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
        raise invalid(f"the number in the URL must be from {low} to {high}")
    return int(text)


def not_found(what: str) -> HttpError:
    """Return the error for something that does not exist."""
    return missing(what)
