"""Routes of the authorization server: its metadata, registration, tokens and revocation.

None of them needs a key. They answer with the errors of OAuth. The authorization endpoint is a page of the console.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute
from starlette.routing import Route as HttpRoute

from retentive.errors import RetentiveError
from retentive.server.authorization import AUTHORIZE, DESCRIPTION, GRANTED, REGISTER, REVOKE, TOKEN, Authorization
from retentive.server.calls import Json
from retentive.server.clients import OAuthError
from retentive.server.errors import HttpError, missing
from retentive.server.requests import pieces_in
from retentive.wire.history import INVALID

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from retentive.server.application import Server

MAX_FORM_BYTES = 64 << 10
NO_STORE = {"cache-control": "no-store", "pragma": "no-cache"}
Answers = Callable[[Authorization, bytes, str], Json]
"""Function that answers a request, from its body and the URL of the server."""


class OAuthEndpoint:
    """ASGI application that handles the requests to one path of the authorization server."""

    def __init__(self, server: Server, method: str, answers: Answers, status: int = 200) -> None:
        self._server, self._method, self._answers, self._status = server, method, answers, status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request. If it fails, send an error response."""
        try:
            response = await self._answered(Request(scope, receive))
        except OAuthError as error:
            scope["state"]["code"] = error.code
            body = {"error": error.code, "error_description": error.description}
            response = JSONResponse(body | {"request_id": scope["state"]["request_id"]}, error.status, NO_STORE)
        except (HttpError, RetentiveError) as error:
            await self._server.refusal(scope, error)(scope, receive, send)
            return
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> JSONResponse:
        base, authorization = self._server.public_url(request), self._server.authorization
        if base is None or authorization is None:
            raise missing("route")
        if request.method not in {self._method, "HEAD" if self._method == "GET" else ""}:
            raise HttpError(405, INVALID, "method not allowed", "method_not_allowed", allow=self._method)
        body = b"".join([piece async for piece in pieces_in(request, MAX_FORM_BYTES)])
        answer = await self._server.workers.run(partial(self._answers, authorization, body, base))
        return JSONResponse(answer, self._status, NO_STORE)


def _description(_: Authorization, __: bytes, base: str) -> Json:
    """Return the metadata of the authorization server (RFC 8414)."""
    return {
        "issuer": base,
        "authorization_endpoint": base + AUTHORIZE,
        "token_endpoint": base + TOKEN,
        "registration_endpoint": base + REGISTER,
        "revocation_endpoint": base + REVOKE,
        "scopes_supported": list(GRANTED),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["RS256", "ES256"],
        "revocation_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "revocation_endpoint_auth_signing_alg_values_supported": ["RS256", "ES256"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }


def _revoked(authorization: Authorization, body: bytes, base: str) -> Json:
    authorization.revoke(_form(body), base)
    return {}


def _form(body: bytes) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(body.decode("ascii"), errors="strict", max_num_fields=40)
    except ValueError:
        raise OAuthError("invalid_request", "the body must be a form") from None
    if len(dict(pairs)) != len(pairs):
        raise OAuthError("invalid_request", "a parameter occurs twice")
    return dict(pairs)


def authorization_routes(server: Server) -> list[BaseRoute]:
    """Return the routes of the authorization server. They answer 404 while the server does not know its URL."""
    endpoints = {
        DESCRIPTION: OAuthEndpoint(server, "GET", _description),
        REGISTER: OAuthEndpoint(server, "POST", lambda own, body, _: own.clients.register(body), 201),
        TOKEN: OAuthEndpoint(server, "POST", lambda own, body, base: own.issue(_form(body), base)),
        REVOKE: OAuthEndpoint(server, "POST", _revoked),
    }
    return [HttpRoute(path, endpoint) for path, endpoint in endpoints.items()]
