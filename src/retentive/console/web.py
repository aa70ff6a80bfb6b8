"""ASGI part of the console: sign-in, checks of requests, and errors. Pages are made in worker threads."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as HttpRoute
from starlette.types import Receive, Scope, Send

import retentive
from retentive.console.pages import PAGES
from retentive.console.rendering import BASE, HEADERS, STATIC, html_page, static_file
from retentive.console.visits import PageRoute, Visit, redirect
from retentive.errors import RetentiveError
from retentive.server.application import Server
from retentive.server.calls import Caller
from retentive.server.errors import HttpError, api_error, error_response, forbidden, invalid, missing, no_method
from retentive.server.limits import FAILURES_S
from retentive.server.options import ServeOptions
from retentive.server.requests import client_address
from retentive.server.rights import SCOPES, KeyRecord
from retentive.server.sessions import IDLE_S, LONGEST_S, OneTimeCode, Sessions, SignInRefused, form_token, is_form_token

if TYPE_CHECKING:
    from retentive.server.openid import People, Provider

MAX_FORM_BYTES = 8 << 20
MAX_FIELDS, MAX_NEXT, MAX_CODE_CHARS = 1_100, 2_000, 16
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
COOKIE, HOST_PREFIX = "retentive", "__Host-"
TITLES = {403: "Not allowed", 404: "Not found", 409: "Conflict", 429: "Too many requests"}
_STATIC, _LOGIN, _LOGOUT = f"{BASE}/static/{{digest}}/{{name}}", f"{BASE}/login", f"{BASE}/logout"
_PROVIDER, _BACK = f"{_LOGIN}/{{provider}}", f"{_LOGIN}/{{provider}}/callback"
FLOW_S = 600
"""Time within which a person must come back from the identity provider."""
REFUSALS = {
    "old_form": "The sign-in page was open for too long. Try again.",
    "invalid_key": "This did not work. Check what you typed.",
    "invalid_state": "The sign-in took too long, or began in another browser. Try again.",
    "no_access": "You signed in, but nobody has given you access here. Ask an administrator.",
    "email_not_verified": "The identity provider has not verified your e-mail address.",
}
"""What people read of refused sign-ins. All others are refusals of an identity provider, with one text."""


class Console:
    """Console of one server process. It answers requests for the `hosts`, for addresses and for this machine."""

    def __init__(self, server: Server, sessions: Sessions, hosts: frozenset[str] = frozenset()) -> None:
        self.server, self.sessions, self.hosts = server, sessions, hosts
        self.by_path: dict[str, dict[str, PageRoute]] = {}
        for route in PAGES:
            self.by_path.setdefault(BASE + route.path, {})[route.method] = route

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the console, to add to those of the server. The console answers every method."""
        paths = ["/", BASE, _STATIC, _LOGIN, _LOGOUT, _PROVIDER, _BACK, *self.by_path, f"{BASE}/{{rest:path}}"]
        return [HttpRoute(path, self) for path in paths]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Errors become pages."""
        request = Request(scope, receive)
        try:
            response = await self._answer(request, scope["route"].path)
        except (HttpError, RetentiveError) as error:
            scope["state"]["code"] = error.code
            response = _error_page(error, None)
        await response(scope, receive, send)

    async def _answer(self, request: Request, path: str) -> Response:
        if path == "/":  # a browser is redirected; for other clients, there is no such route
            is_browser = request.method in {"GET", "HEAD"} and "text/html" in request.headers.get("accept", "")
            return redirect(f"{BASE}/") if is_browser else error_response(request.scope, missing("route"))
        self._check(request)
        if path == BASE:
            return redirect(f"{BASE}/")
        if path == _STATIC:
            name = request.path_params["name"]
            if name not in STATIC:
                raise missing("page")
            headers = {**HEADERS, "cache-control": "public, max-age=31536000, immutable"}
            return Response(static_file(name), headers=headers, media_type=STATIC[name])
        if path == _LOGIN:
            return await self._login(request)
        if path in {_PROVIDER, _BACK}:
            return await self._at_provider(request, is_back=path == _BACK)
        return await (self._logout(request) if path == _LOGOUT else self._page(request, self.by_path.get(path, {})))

    def _check(self, request: Request) -> None:
        """Raise `HttpError` if a request must be refused.

        Another site can make its own host name resolve to this server (DNS rebinding), so only listed names are
        allowed. IP addresses are always allowed. Browsers send at least one of the headers by which a POST of another
        site is known.
        """
        host = _host(request)
        if host not in LOOPBACK and host not in self.hosts:
            try:
                ipaddress.ip_address(host)
            except ValueError:
                raise invalid(
                    "the console does not accept this host name; add it to --console-hosts, or set --public-url"
                ) from None
        if request.method not in {"GET", "HEAD", "POST"}:
            raise no_method("GET, POST")
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        is_foreign = origin is not None and urlsplit(origin).netloc != request.headers.get("host")
        if request.method == "POST" and (is_foreign or site not in {None, "same-origin"}):
            raise forbidden("another site sent this request")

    async def _login(self, request: Request) -> Response:
        """Show the sign-in page. With POST, sign a person in."""
        if request.method != "POST":
            query = request.query_params
            return self._sign_in_page(request, _own_url(query.get("next", "")), code=query.get("code", ""))
        form = await self._form(request)
        return await self._signing_in(request, _own_url(_first(form, "next")), partial(self._typed, request, form))

    async def _signing_in(self, request: Request, wanted: str, step: Callable[[], Response]) -> Response:
        """Return the answer of a step of a sign-in or, if it is refused, the sign-in page."""
        status = 403
        try:
            return await self.server.workers.run(step)
        except SignInRefused as refusal:
            problem = REFUSALS.get(refusal.outcome, "The identity provider did not let you sign in.")
        except HttpError as error:
            if error.status != 429:
                raise
            problem, status = error.message, 429
        request.scope["state"]["code"] = "sign_in_failed"
        return self._sign_in_page(request, wanted, problem, status)

    def _typed(self, request: Request, form: Mapping[str, list[str]]) -> Response:
        """Sign in a person who typed a key or a code. Raises `SignInRefused`."""
        before = request.cookies.get(_cookie_name(request, "_form"), "")
        if not before or not is_form_token(before, _first(form, "csrf")):
            raise SignInRefused("old_form")
        key = self.sessions.authenticated(_first(form, "key"), client_address(request.scope))
        if key is None:
            raise SignInRefused("invalid_key")
        return self._entered(request, _own_url(_first(form, "next")), key, "_form")

    def _sign_in_page(
        self, request: Request, wanted: str, problem: str = "", status: int = 200, *, code: str = ""
    ) -> Response:
        secret, is_local, people = secrets.token_urlsafe(24), self.sessions.is_local, self.sessions.people
        values = {"csrf": form_token(secret), "next": wanted, "problem": problem, "is_local": is_local}
        values |= {"code": code[:MAX_CODE_CHARS] if is_local else ""}
        values |= {"providers": [] if people is None else list(people.providers)}
        response = html_page("login.html", "Sign in", status, **values)
        if status == 429:
            response.headers["retry-after"] = str(FAILURES_S)
        _set_cookie(response, request, "_form", secret, IDLE_S)
        return response

    async def _at_provider(self, request: Request, *, is_back: bool) -> Response:
        """Send a person to an identity provider or, when they come back, sign them in."""
        name, people = request.path_params["provider"], self.sessions.people
        if people is None or name not in people.providers:
            raise missing("page")
        if request.method != "GET":
            raise no_method("GET")
        provider, back = people.providers[name], people.resource + _BACK.format(provider=name)
        step = partial(self._came_back, people) if is_back else self._sent

        def work() -> Response:
            try:
                return step(provider, request, back)
            except SignInRefused as refusal:
                facts = {**refusal.facts, "provider": name}
                self.sessions.refused(refusal.outcome, client_address(request.scope), **facts)
                raise

        return await self._signing_in(request, _flow(request)[2], work)

    def _sent(self, provider: Provider, request: Request, back: str) -> Response:
        """Return the redirect to the provider. The browser keeps the secret of the sign-in, and the page to open."""
        secret, wanted = secrets.token_urlsafe(32), _own_url(request.query_params.get("next", ""))
        response = redirect(provider.authorization_url(secret, back))
        kept = f"{provider.name}.{secret}.{quote(wanted if len(wanted) < MAX_NEXT else f'{BASE}/', safe='')}"
        _set_cookie(response, request, "_flow", kept, FLOW_S)
        return response

    def _came_back(self, people: People, provider: Provider, request: Request, back: str) -> Response:
        """Sign in a person whom the provider sent back. Raises `SignInRefused`."""
        began, secret, wanted = _flow(request)
        if began != provider.name:
            raise SignInRefused("invalid_state")
        person = provider.signed_in(request.query_params, secret, back)
        key = self.server.location.keys.groups.with_groups(provider.rights(person))
        if not any(map(key.allows_somewhere, SCOPES)):
            raise SignInRefused("no_access", actor=str(key.actor), workspace=key.workspace_id)
        people.keep(person, key.id)
        return self._entered(request, wanted, key, "_flow", provider=provider.name)

    def _entered(self, request: Request, wanted: str, key: KeyRecord, kind: str, **facts: str) -> Response:
        """Begin a sign-in, which replaces the one of the same browser. The cookie `kind` is no longer needed."""
        address, response = client_address(request.scope), redirect(wanted)
        self.sessions.end(_token(request), address)
        _set_cookie(response, request, "", self.sessions.begin(key, address, **facts))
        _set_cookie(response, request, kind, "", 0)
        return response

    async def _logout(self, request: Request) -> Response:
        """End the sign-in."""
        if request.method != "POST":
            raise no_method("POST")
        token = _token(request)
        if not is_form_token(token, _first(await self._form(request), "csrf")):
            raise forbidden("the form is too old; open the page again")
        url = await self.server.workers.run(partial(self._ended, token, client_address(request.scope)))
        response = redirect(_LOGIN) if url is None else html_page("signed_out.html", "Signed out", url=url)
        if url is not None:  # no redirect: the policy for forms forbids one to another site
            response.headers["refresh"] = f"0;url={url}"
        _set_cookie(response, request, "", "", 0)
        return response

    def _ended(self, token: str, address: str) -> str | None:
        """End a sign-in. Return the URL at which the person signs out of the identity provider, if there is one."""
        key_id, people = self.sessions.end(token, address), self.sessions.people
        return None if people is None else people.logout_url(key_id, people.resource + _LOGIN)

    async def _page(self, request: Request, routes: Mapping[str, PageRoute]) -> Response:
        """Answer a request for a page or an action. A person who is not signed in is redirected to the sign-in page."""
        token, is_poll = _token(request), any(each.is_poll for each in routes.values())
        found = partial(self.sessions.found, token, is_poll=is_poll)
        key = await self.server.workers.run(found) if token else None
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if key is None:
            is_read = request.method in {"GET", "HEAD"} and wanted != f"{BASE}/"
            login = f"{_LOGIN}?next={quote(wanted, safe='')}" if is_read else _LOGIN
            return html_page("_signed_out.html") if is_poll else redirect(login)
        route = routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            raise no_method(", ".join(routes)) if routes else missing("page")
        request.scope["state"].update(key_id=key.id, workspace_id=key.workspace_id)
        self.server.limits.check(key.id, key.rate_limit)
        form: Mapping[str, list[str]] = {}
        if route.method == "POST":
            form = await self._form(request)
            if not is_form_token(token, _first(form, "csrf")):
                raise forbidden("the form is too old, or another page sent it; open the page again")
        if not (key.allows if route.is_of_workspace else key.allows_somewhere)(route.scope):
            raise forbidden(f"this page needs an API key with the scope {route.scope}")
        try:
            query = parse_qs(request.url.query, max_num_fields=MAX_FIELDS)
        except ValueError:
            raise invalid("the URL has too many fields") from None
        visit = Visit(
            self.server.location, self.sessions, Caller(key, key.actor), route.method, route.area, form_token(token),
            client_address(request.scope), wanted if route.method == "GET" else f"{BASE}/", route.scope,
            request.path_params, {name: _first(query, name) for name in query}, form,
            self.server.authorization, self.server.public_url(request),
        )  # fmt: skip
        answer, store_id = await self.server.workers.run(partial(_made, visit, route))
        if route.method == "POST" and store_id:
            self.server.hub.wake(store_id)
        return answer

    async def _form(self, request: Request) -> Mapping[str, list[str]]:
        """Read the fields of a form. Raises `HttpError` if the body is not a valid form or is too long."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            raise invalid("the body must be a form")
        found = bytearray()
        async for piece in request.stream():
            found += piece
            if len(found) > MAX_FORM_BYTES:
                raise HttpError(413, "request_too_large", "the form is too large", "body_too_large")
        try:
            return parse_qs(found.decode("ascii"), True, errors="strict", max_num_fields=MAX_FIELDS)
        except ValueError:
            raise invalid("the form is malformed") from None


def _host(request: Request) -> str:
    """Return the host name of a request without its port. Empty if it is malformed."""
    try:
        return (urlsplit(f"//{request.headers.get('host', '')}").hostname or "").lower()
    except ValueError:
        return ""


def _made(visit: Visit, route: PageRoute) -> tuple[Response, str]:
    """Return the answer of a page, and the id of its memory store if the key may see one."""
    store_id = ""
    try:
        if "store" in visit.ids:  # first, so that no page reveals a store that the key may not see
            store_id = visit.info.id
            visit = replace(visit, caller=visit.caller.within(visit.info))
            visit.need(route.scope)
        return route.handler(visit), store_id
    except (HttpError, RetentiveError) as error:
        return _error_page(error, visit), store_id


def _error_page(error: HttpError | RetentiveError, visit: Visit | None) -> Response:
    found = error if isinstance(error, HttpError) else api_error(error)
    title, values = TITLES.get(found.status, "This did not work"), {"message": found.message, "code": found.code}
    return (html_page if visit is None else visit.page)("error.html", title, found.status, **values)


def _cookie_name(request: Request, kind: str) -> str:
    """Return the name of a cookie. Browsers accept the prefix `__Host-` only over TLS and from the host itself.

    Only plain HTTP on this machine has cookies without it.
    """
    is_secure = request.url.scheme == "https" or _host(request) not in LOOPBACK
    return f"{HOST_PREFIX if is_secure else ''}{COOKIE}{kind}"


def _set_cookie(response: Response, request: Request, kind: str, value: str, max_age: int = LONGEST_S) -> None:
    """Set a cookie. With `SameSite=Lax`, links from other sites work. This is safe, because no GET changes data."""
    name = _cookie_name(request, kind)
    is_secure = name.startswith(HOST_PREFIX)
    response.set_cookie(name, value, max_age, secure=is_secure, httponly=True, samesite="lax")


def _flow(request: Request) -> tuple[str, str, str]:
    """Return the identity provider that the browser was sent to, the secret of this sign-in, and the page to open."""
    name, _, rest = request.cookies.get(_cookie_name(request, "_flow"), "").partition(".")
    secret, _, wanted = rest.partition(".")
    return name, secret, _own_url(unquote(wanted))


def _token(request: Request) -> str:
    return request.cookies.get(_cookie_name(request, ""), "")


def _first(form: Mapping[str, list[str]], name: str) -> str:
    return next(iter(form.get(name, ())), "")


def _own_url(wanted: str) -> str:
    """Return `wanted` if it is a URL of the console, otherwise the URL of the first page."""
    parts = urlsplit(wanted)
    is_own = wanted.startswith(f"{BASE}/") and not (parts.scheme or parts.netloc) and wanted.isprintable()
    return wanted if is_own and "\\" not in wanted else f"{BASE}/"


def console(server: Server, *, hosts: frozenset[str] = frozenset(), code: OneTimeCode | None = None) -> Console:
    """Return the console of a server, or with a one-time code that of a local location, with sign-ins in memory."""
    if code is not None:
        server.sessions = Sessions(server.location.keys, retentive.open("sqlite:///:memory:").records, code)
    return Console(server, server.sessions, hosts)


def routes(server: Server, options: ServeOptions) -> list[BaseRoute]:
    """Return the routes of the console for `retentive serve`."""
    names = (each.strip().lower() for each in (options.console_hosts or "").split(","))
    public = urlsplit(options.public_url or ("" if server.tokens is None else server.tokens.resource)).hostname or ""
    return console(server, hosts=frozenset(filter(None, [*names, public]))).routes()
