"""Pages on which a person connects an MCP client, such as claude.ai, and disconnects it."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.responses import Response

from retentive.console.pages.stores import listed
from retentive.console.rendering import BASE, POLICY, name_of
from retentive.console.visits import Visit, page, redirect
from retentive.server.authorization import AUTHORIZE, asked
from retentive.server.clients import OAuthError
from retentive.server.errors import forbidden, invalid, missing
from retentive.server.options import is_loopback

T = TypeVar("T")


@page("GET POST", AUTHORIZE.removeprefix(BASE), "read")
def authorize(visit: Visit) -> Response:
    """Ask the person whether to connect a client. With POST, send the browser back to the client with the answer.

    If the client or the address to send the browser to is not known, the person gets an error page instead.
    """
    authorization, base = needed(visit.authorization), needed(visit.base)
    try:
        client = authorization.clients.find(visit.query.get("client_id", ""))
        to = client.redirect_uri(visit.query.get("redirect_uri", ""))
    except OAuthError as error:
        raise invalid(f"{error.code}: {error.description}") from None
    try:
        wanted, challenge = asked(visit.query, base)
    except OAuthError as error:
        return _sent_back(visit, to, error=error.code, error_description=error.description)
    scopes = [scope for scope in wanted if visit.can(scope)]
    if not scopes:
        raise forbidden(f"your sign-in has none of the scopes that the client asks for: {', '.join(wanted)}")
    stores = {info.id: info for info in listed(visit, "", is_archived=False)[0]}
    if not visit.is_post:
        return _question(visit, to, client=client, scopes=scopes, stores=stores.values())
    granted = tuple(scope for scope in scopes if scope in visit.form.get("scope", ()))
    if visit.given("answer") != "connect" or not granted:
        return _sent_back(visit, to, error="access_denied", error_description="the person refused")
    store_id = visit.given("store")
    if store_id and store_id not in stores:
        raise invalid("store: there is no such memory store")
    code = authorization.connect(
        visit.caller.key, client, base,
        redirect_uri=to, challenge=challenge, scopes=granted, store_id=store_id, address=visit.address,
    )  # fmt: skip
    return _sent_back(visit, to, code=code)


def _question(visit: Visit, to: str, **values: object) -> Response:
    parts = urlsplit(to)
    own = {"redirect_host": parts.netloc, "is_here": is_loopback(parts.hostname)}
    url = f"{AUTHORIZE}?{urlencode(visit.query)}"
    response = visit.page("authorize.html", "Connect a client", url=url, **own, **values)
    targets = "'self' https: http:" if parts.scheme == "http" else "'self' https:"
    policy = POLICY.replace("form-action 'self'", f"form-action {targets}")  # browsers check all redirects that follow
    response.headers["content-security-policy"] = policy
    return response


def _sent_back(visit: Visit, to: str, **answer: str) -> Response:
    """Return a redirect to the client, which always names the authorization server (RFC 9207)."""
    parts = urlsplit(to)
    state = {"state": visit.query["state"]} if "state" in visit.query else {}
    query = [*parse_qsl(parts.query, keep_blank_values=True), *{**answer, **state, "iss": needed(visit.base)}.items()]
    return redirect(parts._replace(query=urlencode(query)).geturl())


def needed(value: T | None) -> T:
    """Return `value`. Raises `HttpError` 404 if it is None: then the server connects no clients."""
    if value is None:
        raise missing("page")
    return value


@page("GET", "/clients", "read")
@page("POST", "/clients/disconnect", "read")
def clients(visit: Visit) -> Response:
    """Show the connected clients of the person, or to an administrator all of the workspace. With POST, end one."""
    authorization, key = needed(visit.authorization), visit.caller.key
    found = authorization.connected(key.workspace_id, None if visit.manages_workspace else str(key.actor))
    found = [each for each in found if key.joins_groups or each.key_id == key.id]
    if visit.is_post:
        for each in found:
            if each.id == visit.given("id"):
                authorization.disconnect(each, by=str(key.actor), address=visit.address)
        return redirect(f"{BASE}/clients")
    names = {info.id: name_of(info) for info in listed(visit, "", is_archived=True)[0]}
    return visit.page("clients.html", "Connected clients", clients=found, names=names)
