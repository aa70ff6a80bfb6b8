"""ASGI part of the console: sign-in, checks of requests, and responses. Pages are made in worker threads."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import parse_qs, quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.routing import Route as HttpRoute
from starlette.types import Receive, Scope, Send

from retentive.console import request_checks
from retentive.console.rendering import STATIC, environment, static_file
from retentive.console.routes import PAGES
from retentive.console.sessions import IDLE_S, LONGEST_S, InProcess, OneTimeCode, Sessions, form_token, is_form_token
from retentive.console.visits import BASE, Download, HtmlPage, PageAnswer, PageRoute, Redirect, Visit
from retentive.errors import RetentiveError
from retentive.server.application import ClosingResponse, Server, error_response
from retentive.server.calls import Caller
from retentive.server.errors import HttpError, api_error, forbidden, invalid, missing
from retentive.server.keys import KeyRecord
from retentive.server.options import ServeOptions
from retentive.storage.contract import StoreInfo

MAX_FORM_BYTES = 8 << 20
MAX_FIELDS = 1_100


@dataclass
class Console:
    """Console of one server process."""

    server: Server
    sessions: Sessions
    hosts: frozenset[str] = frozenset()
    by_path: dict[str, dict[str, PageRoute]] = field(default_factory=dict)

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the console, to add to those of the server."""
        for route in PAGES:
            self.by_path.setdefault(BASE + route.path, {})[route.method] = route
        known: list[BaseRoute] = [
            HttpRoute(f"{BASE}/static/{{digest}}/{{name}}", _Endpoint(self.static)),
            HttpRoute(f"{BASE}/login", _Endpoint(self.login)),
            HttpRoute(f"{BASE}/logout", _Endpoint(self.logout)),
            HttpRoute(BASE, _Endpoint(self.start)),
            HttpRoute("/", _Endpoint(self.front)),
        ]
        known += [HttpRoute(path, _Endpoint(partial(self.page, path=path))) for path in self.by_path]
        return [*known, HttpRoute(f"{BASE}/{{rest:path}}", _Endpoint(partial(self.page, path="")))]

    async def start(self, _: Request) -> Response:
        """Redirect from `/console` to `/console/`."""
        return RedirectResponse(f"{BASE}/", 303)

    async def front(self, request: Request) -> Response:
        """Redirect a browser from `/` to the console. For other clients, there is no such route."""
        if request.method in {"GET", "HEAD"} and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(f"{BASE}/", 303)
        return error_response(request.scope, missing("route"))

    async def static(self, request: Request) -> Response:
        """Send a static file."""
        name = request.path_params["name"]
        if name not in STATIC:
            return self.failed(request, missing("page"))
        headers = {**request_checks.HEADERS, "cache-control": "public, max-age=31536000, immutable"}
        return Response(static_file(name), headers=headers, media_type=STATIC[name])

    async def login(self, request: Request) -> Response:
        """Show the sign-in page. With POST, sign a person in."""
        refusal = self._refused(request)
        if refusal is not None:
            return self.failed(request, refusal)
        secure, wanted = _is_secure(request), _own_url(request.query_params.get("next", ""))
        who = "" if request.client is None else request.client.host
        if request.method == "POST":
            form = await self._form(request)
            wanted = _own_url(_first(form, "next"))
            before = request.cookies.get(request_checks.cookie_name("_form", secure=secure), "")
            problem = "The sign-in page was open for too long. Try again."
            if before and is_form_token(before, _first(form, "csrf")):
                problem = "Too many failed sign-ins. Wait a minute." if self.sessions.is_blocked(who) else ""
            if not problem:
                found = await self.server.workers.run(partial(self.sessions.authenticated, _first(form, "key"), who))
                if found is not None:
                    return await self._signed_in(request, found, wanted)
                problem = "This did not work. Check what you typed."
            return self._login_page(request, wanted, problem, 403)
        return self._login_page(request, wanted, "", 200)

    def _login_page(self, request: Request, wanted: str, problem: str, status: int) -> Response:
        secret, secure = secrets.token_urlsafe(24), _is_secure(request)
        values = {"csrf": form_token(secret), "next": wanted, "problem": problem, "is_local": self.sessions.is_local}
        response = self._html(HtmlPage("login.html", values, status, "Sign in"), None)
        response.headers.append("set-cookie", request_checks.cookie("_form", secret, secure=secure, max_age=IDLE_S))
        return response

    async def _signed_in(self, request: Request, record: KeyRecord, wanted: str) -> Response:
        token = await self.server.workers.run(partial(self.sessions.begin, record))
        response = RedirectResponse(wanted, 303, request_checks.PRIVATE)
        secure = _is_secure(request)
        response.headers.append("set-cookie", request_checks.cookie("", token, secure=secure, max_age=LONGEST_S))
        response.headers.append("set-cookie", request_checks.cookie("_form", "", secure=secure, max_age=0))
        return response

    async def logout(self, request: Request) -> Response:
        """End the sign-in."""
        refusal = self._refused(request)
        if refusal is None and request.method != "POST":
            refusal = HttpError(405, "invalid_request_error", "method not allowed", "method_not_allowed")
        token = self._token(request)
        if refusal is None and not is_form_token(token, _first(await self._form(request), "csrf")):
            refusal = forbidden("the form is too old; open the page again")
        if refusal is not None:
            return self.failed(request, refusal)
        await self.server.workers.run(partial(self.sessions.end, token))
        response = RedirectResponse(f"{BASE}/login", 303, request_checks.PRIVATE)
        response.headers.append("set-cookie", request_checks.cookie("", "", secure=_is_secure(request), max_age=0))
        return response

    async def page(self, request: Request, path: str) -> Response:
        """Answer a request for a page or an action. A person who is not signed in is redirected to the sign-in page."""
        try:
            refusal = self._refused(request)
            if refusal is not None:
                raise refusal
            token, is_poll = self._token(request), any(each.is_poll for each in self.by_path.get(path, {}).values())
            found = partial(self.sessions.found, token, is_poll=is_poll)
            key = await self.server.workers.run(found) if token else None
            if key is None:
                return self._html(HtmlPage("_signed_out.html"), None) if is_poll else self._to_login(request)
            return await self._answered(request, self._route(path, request.method), key, token)
        except (HttpError, RetentiveError) as error:
            return self.failed(request, error)

    async def _answered(self, request: Request, route: PageRoute, key: KeyRecord, token: str) -> Response:
        request.scope["state"].update(key_id=key.id, route=BASE + route.path)
        self.server.limits.check(key.id, key.rate_limit)
        form: Mapping[str, list[str]] = {}
        if route.method == "POST":
            form = await self._form(request)
            if not is_form_token(token, _first(form, "csrf")):
                raise forbidden("the form is too old, or another page sent it; open the page again")
        if not key.allows(route.scope):
            raise forbidden(f"this page needs an API key with the scope {route.scope}")
        try:
            asked = parse_qs(request.url.query, max_num_fields=MAX_FIELDS)
        except ValueError:
            raise invalid("the URL has too many fields") from None
        query = {name: values[0] for name, values in asked.items()}
        caller = Caller(key, key.actor)
        visit = Visit(self.server.location, self.sessions, caller, route.method, request.path_params, query, form)
        answer = await self.server.workers.run(partial(self._made, visit, route, token))
        if route.method == "POST" and (info := _info(visit)) is not None:
            self.server.hub.wake(info.id)
        return answer

    def _made(self, visit: Visit, route: PageRoute, token: str) -> Response:
        csrf = form_token(token)
        if "store" in visit.ids:
            try:
                _ = visit.info
            except (HttpError, RetentiveError) as error:  # the same for every page, so that it reveals no store
                return self._html(_error_page(error), visit, csrf)
        try:
            answer: PageAnswer = route.handler(visit)
        except (HttpError, RetentiveError) as error:
            return self._html(_error_page(error), visit, csrf)
        if answer is None:
            return Response(None, 204, request_checks.PRIVATE)
        if isinstance(answer, Redirect):
            return RedirectResponse(answer.url, 303, request_checks.PRIVATE)
        return _file(answer) if isinstance(answer, Download) else self._html(answer, visit, csrf)

    def _html(self, page: HtmlPage, visit: Visit | None, csrf: str = "") -> Response:
        common = {"visit": visit, "csrf": csrf, "title": page.title, "area": "", "at": "", "info": _info(visit)}
        body = environment().get_template(page.template).render({**common, **page.values})
        return Response(body, page.status, request_checks.PRIVATE, media_type="text/html")

    def failed(self, request: Request, error: HttpError | RetentiveError) -> Response:
        """Return the page for an error."""
        request.scope["state"]["code"] = error.code
        return self._html(_error_page(error), None)

    def _refused(self, request: Request) -> HttpError | None:
        """Return the error if a request must be refused before its form is read, otherwise None."""
        if not request_checks.is_known_host(request_checks.host_of(request.headers), self.hosts):
            return invalid("the console does not accept this host name; add the host name to --console-hosts")
        if request.method not in {"GET", "HEAD", "POST"}:
            return HttpError(405, "invalid_request_error", "method not allowed", "method_not_allowed")
        if request.method == "POST" and request_checks.is_foreign(request.headers):
            return forbidden("another site sent this request")
        return None

    def _to_login(self, request: Request) -> Response:
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        ending = f"?next={quote(wanted, safe='')}" if request.method in {"GET", "HEAD"} and wanted != f"{BASE}/" else ""
        return RedirectResponse(f"{BASE}/login{ending}", 303, request_checks.PRIVATE)

    def _route(self, path: str, method: str) -> PageRoute:
        found = self.by_path.get(path, {})
        route = found.get("GET" if method == "HEAD" else method)
        if route is None:
            if found:
                raise HttpError(405, "invalid_request_error", "method not allowed", "method_not_allowed")
            raise missing("page")
        return route

    def _token(self, request: Request) -> str:
        return request.cookies.get(request_checks.cookie_name("", secure=_is_secure(request)), "")

    async def _form(self, request: Request) -> Mapping[str, list[str]]:
        """Read the fields of a form. Raises `HttpError` if the body is not a valid form or is too long."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            raise invalid("the body must be a form")
        found = bytearray()
        with self.server.bodies.reserved() as reserve:
            async for piece in request.stream():
                reserve(len(piece))
                found += piece
                if len(found) > MAX_FORM_BYTES:
                    raise HttpError(413, "request_too_large", "the form is too large", "body_too_large")
        try:
            return parse_qs(found.decode("ascii"), True, errors="strict", max_num_fields=MAX_FIELDS)
        except ValueError:
            raise invalid("the form is malformed") from None


class _Endpoint:
    """ASGI application of one path. Starlette passes all methods to it."""

    def __init__(self, handler: object) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert callable(self._handler)
        response = await self._handler(Request(scope, receive))
        await response(scope, receive, send)


def _file(answer: Download) -> Response:
    headers = {
        **request_checks.PRIVATE,
        "content-security-policy": "sandbox; default-src 'none'",
        "content-disposition": f"attachment; filename*=UTF-8''{quote(answer.name, safe='')}",
    }
    return ClosingResponse(answer.pieces, answer.media_type, headers=headers)


def _is_secure(request: Request) -> bool:
    return request_checks.is_secure(request.url.scheme, request_checks.host_of(request.headers))


def _info(visit: Visit | None) -> StoreInfo | None:
    """Return the memory store of a page. None for a page without a store, and for a store that the key may not see."""
    if visit is None or "store" not in visit.ids:
        return None
    try:
        return visit.info
    except (HttpError, RetentiveError):
        return None


def _first(form: Mapping[str, list[str]], name: str) -> str:
    return next(iter(form.get(name, ())), "")


def _own_url(wanted: str) -> str:
    """Return `wanted` if it is a URL of the console, otherwise the URL of the first page."""
    parts = urlsplit(wanted)
    is_own = wanted.startswith(f"{BASE}/") and not (parts.scheme or parts.netloc) and wanted.isprintable()
    return wanted if is_own and "\\" not in wanted else f"{BASE}/"


def _error_page(error: HttpError | RetentiveError) -> HtmlPage:
    found = error if isinstance(error, HttpError) else api_error(error)
    titles = {403: "Not allowed", 404: "Not found", 409: "Conflict", 429: "Too many requests"}
    title = titles.get(found.status, "This did not work")
    return HtmlPage("error.html", {"message": found.message, "code": found.code}, found.status, title)


def console(server: Server, *, hosts: frozenset[str] = frozenset(), code: OneTimeCode | None = None) -> Console:
    """Return the console of a server. With a one-time code, it is the console of a local location."""
    records = server.location.opened.records if code is None else InProcess()
    return Console(server, Sessions(server.location.keys, records, code), hosts)


def routes(server: Server, options: ServeOptions) -> list[BaseRoute]:
    """Return the routes of the console for `retentive serve`."""
    names = (each.strip().lower() for each in (options.console_hosts or "").split(","))
    return console(server, hosts=frozenset(filter(None, names))).routes()
