"""Routes of OAuth: metadata of resources, and the metadata, registration, tokens and revocation of clients.

None of them needs a key. They answer with the errors of OAuth. The authorization endpoint is a page of the console.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as HttpRoute

from retentive.errors import RetentiveError
from retentive.server.authorization import (
    AUTHORIZE,
    DESCRIPTION,
    FIELDS,
    GRANTED,
    REGISTER,
    REVOKE,
    TOKEN,
)
from retentive.server.calls import Json
from retentive.server.clients import OAuthError
from retentive.server.errors import HttpError, error_response, missing, only
from retentive.server.requests import MCP, METADATA

if TYPE_CHECKING:
    from retentive.server.application import Server

MAX_FORM_BYTES = 64 << 10
NO_STORE = {"cache-control": "no-store", "pragma": "no-cache"}


def oauth_routes(server: Server) -> list[HttpRoute]:
    """Return the routes for what the server has: issuers of tokens, and an authorization server.

    Those of the authorization server answer 404 while the server does not know its URL.
    """
    authorization = server.authorization
    paths = [METADATA + MCP] if server.tokens or authorization else []
    paths += [METADATA] if server.tokens else []
    routes = [only("GET", path, partial(_described_resource, server)) for path in paths]
    if authorization is None:
        return routes

    def route(method: str, path: str, answers: Callable[[bytes, str], Json], status: int = 200) -> HttpRoute:
        async def answer(request: Request) -> Response:
            try:
                base = server.public_url(request)
                if base is None:
                    raise missing("route")
                body = await server.read_body(request, MAX_FORM_BYTES)
                return JSONResponse(await server.workers.run(partial(answers, body, base)), status, NO_STORE)
            except OAuthError as error:
                request.scope["state"]["code"] = error.code
                own = {"error": error.code, "error_description": error.description}
                return JSONResponse(own | {"request_id": request.scope["state"]["request_id"]}, error.status, NO_STORE)
            except (HttpError, RetentiveError) as error:
                return server.refusal(request.scope, error)

        return only(method, path, answer)

    return [
        *routes,
        route("GET", DESCRIPTION, lambda _, base: _description(base)),
        route("POST", REGISTER, lambda body, _: authorization.clients.register(body), 201),
        route("POST", TOKEN, lambda body, base: authorization.issue(_form(body), base)),
        route("POST", REVOKE, lambda body, _: authorization.revoke(_form(body))),
    ]


async def _described_resource(server: Server, request: Request) -> Response:
    """Respond with the OAuth metadata of the server, or of the path at the end of the URL (RFC 9728)."""
    path = request.url.path.removeprefix(METADATA)
    base, found = server.public_url(request), {} if server.tokens is None else server.tokens.metadata(path)
    if base is not None and server.is_issuer and path == MCP:
        issuers = [base] if server.tokens is None else [base, *server.tokens.issuers]
        found = {"resource": base + path, "resource_name": "retentive", "authorization_servers": issuers}
        found |= {"scopes_supported": list(GRANTED), "bearer_methods_supported": ["header"]}
    return JSONResponse(found) if found else error_response(request.scope, missing("route"))


def _description(base: str) -> Json:
    """Return the metadata of the authorization server (RFC 8414)."""
    return {
        "issuer": base,
        "authorization_endpoint": base + AUTHORIZE,
        "token_endpoint": base + TOKEN,
        "registration_endpoint": base + REGISTER,
        "revocation_endpoint": base + REVOKE,
        "scopes_supported": list(GRANTED),
        "response_types_supported": ["code"],
        "grant_types_supported": list(FIELDS),
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }


def _form(body: bytes) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(body.decode("ascii"), errors="strict", max_num_fields=40)
    except ValueError:
        raise OAuthError("invalid_request", "the body must be a form") from None
    if len(dict(pairs)) != len(pairs):
        raise OAuthError("invalid_request", "a parameter occurs twice")
    return dict(pairs)
