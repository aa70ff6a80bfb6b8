"""Reads the headers of a request: API key, workspace, beta version, actor and idempotency key."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from retentive.engine.repeats import request_key
from retentive.errors import InvalidInput
from retentive.server.calls import RouteCall
from retentive.server.errors import forbidden, invalid
from retentive.server.keys import KeyRecord
from retentive.server.route import Route
from retentive.storage.contract import Actor
from retentive.values.names import MAX_NAME_CHARS, plain_name
from retentive.values.records import RequestKey

if TYPE_CHECKING:
    from starlette.datastructures import Headers

BETAS = {"agent-memory-2026-07-22", "managed-agents-2026-04-01"}
"""Beta versions of the API. A request may name at most one of them. Names not in this set are ignored."""
ACTOR_HEADER = "retentive-actor"
RUN_HEADER = "retentive-run"
IDEMPOTENCY_HEADER = "idempotency-key"
_KEY = re.compile("[!-~]{1,255}")
METADATA = "/.well-known/oauth-protected-resource"
"""Path of the OAuth metadata (RFC 9728)."""
MCP = "/mcp"
"""Path that MCP clients connect to."""


def key_in(headers: Headers) -> str | None:
    """Return the credential in `X-Api-Key` or, without that header, in `Authorization: Bearer`.

    None if both are missing.
    """
    given = headers.get("x-api-key")
    if given is not None:
        return given
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token else None


def is_token(text: str) -> bool:
    """Return whether a credential looks like an OAuth token (a JWT) rather than an API key."""
    return text.count(".") == 2


def check_workspace(headers: Headers, key: KeyRecord) -> None:
    """Raise `HttpError` 403 if the header `Anthropic-Workspace-Id` does not name the workspace of the key."""
    if headers.get("anthropic-workspace-id", key.workspace_id) != key.workspace_id:
        raise forbidden("the API key does not belong to the workspace in the header Anthropic-Workspace-Id")


def check_beta(headers: Headers) -> None:
    """Raise `HttpError` 400 if the request names more than one beta version of the API."""
    named = {name.strip() for value in headers.getlist("anthropic-beta") for name in value.split(",")}
    if named >= BETAS:
        raise invalid(f"anthropic-beta: name only one of {', '.join(sorted(BETAS))}")


def check_scope(key: KeyRecord, route: Route) -> None:
    """Raise `HttpError` 403 if the key has none of the scopes that the route accepts."""
    if not any(key.allows(scope) for scope in route.scopes):
        raise forbidden(f"the API key needs the scope {' or '.join(route.scopes)}")


def named_actor(headers: Headers, key: KeyRecord) -> Actor:
    """Return the actor in the header `Retentive-Actor` or, without that header, the actor of the key.

    Raises `HttpError` 400 if the header is malformed, and 403 if the key may not act as that actor.
    """
    given = headers.get(ACTOR_HEADER)
    if given is None:
        return key.actor
    try:
        actor = Actor.parse(given.encode("latin-1").decode("utf-8"))
    except (InvalidInput, UnicodeError):
        raise invalid(f"{ACTOR_HEADER}: must be KIND:NAME, such as session:s1") from None
    if actor.kind == "job" or not key.acts_as(str(actor)):
        raise forbidden(f"the API key is not allowed to act as the actor in {ACTOR_HEADER}")
    return actor


def named_run(headers: Headers) -> str | None:
    """Return the run in the header `Retentive-Run`, or None. Raises `HttpError` 400 if the header is malformed."""
    given = headers.get(RUN_HEADER)
    try:
        return None if given is None else plain_name("a run", given.encode("latin-1").decode("utf-8"))
    except (InvalidInput, UnicodeError) as error:
        raise invalid(f"Retentive-Run: must be the name of a run in UTF-8, 1 to {MAX_NAME_CHARS} characters") from error


def read_request_key(headers: Headers, call: RouteCall) -> RequestKey | None:
    """Return the value of the header `Idempotency-Key` and a digest of the request.

    Returns None if the header is missing. Raises `HttpError` 400 if it is malformed.
    """
    given = headers.getlist(IDEMPOTENCY_HEADER)
    if not given:
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise invalid("Idempotency-Key: must be one header with 1 to 255 visible ASCII characters")
    asked = json.dumps(call.given, sort_keys=True)
    if call.uploaded is not None:
        asked += call.uploaded.digest
    return request_key(call.caller.key.id, given[0], call.method, call.path, str(call.caller.actor), asked)
