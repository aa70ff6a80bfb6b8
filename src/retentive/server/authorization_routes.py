"""Routes of the authorization server: its metadata, registration, tokens and revocation.

None of them needs a key. They answer with the errors of OAuth. The authorization endpoint is a page of the console.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
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
    Authorization,
)
from retentive.server.calls import Json
from retentive.server.clients import OAuthError
from retentive.server.errors import HttpError, missing, no_method

if TYPE_CHECKING:
    from retentive.server.application import Server

MAX_FORM_BYTES = 64 << 10
NO_STORE = {"cache-control": "no-store", "pragma": "no-cache"}


def authorization_routes(server: Server, authorization: Authorization) -> list[BaseRoute]:
    """Return the routes of the authorization server. They answer 404 while the server does not know its URL."""

    def route(method: str, path: str, answers: Callable[[bytes, str], Json], status: int = 200) -> HttpRoute:
        async def answer(request: Request) -> Response:
            try:
                base = server.public_url(request)
                if base is None:
                    raise missing("route")
                if request.method not in {method, "HEAD" if method == "GET" else ""}:
                    raise no_method(method)
                body = await server.read_body(request, MAX_FORM_BYTES)
                return JSONResponse(await server.workers.run(partial(answers, body, base)), status, NO_STORE)
            except OAuthError as error:
                request.scope["state"]["code"] = error.code
                own = {"error": error.code, "error_description": error.description}
                return JSONResponse(own | {"request_id": request.scope["state"]["request_id"]}, error.status, NO_STORE)
            except (HttpError, RetentiveError) as error:
                return server.refusal(request.scope, error)

        found = HttpRoute(path, answer)
        found.methods = None  # `answer` refuses other methods, with an error like all others
        return found

    return [
        route("GET", DESCRIPTION, lambda _, base: _description(base)),
        route("POST", REGISTER, lambda body, _: authorization.clients.register(body), 201),
        route("POST", TOKEN, lambda body, base: authorization.issue(_form(body), base)),
        route("POST", REVOKE, lambda body, _: authorization.revoke(_form(body))),
    ]


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
