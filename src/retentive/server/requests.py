"""Reads requests: headers, JSON bodies and queries, cursors of pages, and uploads. All of it is untrusted."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import math
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import IO, TYPE_CHECKING, NoReturn
from urllib.parse import parse_qsl

from anyio import to_thread
from starlette.requests import ClientDisconnect

from retentive.engine.repeats import request_key
from retentive.errors import InvalidInput
from retentive.server.errors import HttpError, forbidden, invalid
from retentive.server.rights import KeyRecord
from retentive.storage.contract import Actor
from retentive.transfer.files import mapped_os_errors, spool
from retentive.values.records import RequestKey
from retentive.values.text import MAX_NAME_CHARS, digest, plain_name

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.types import Scope

    from retentive.server.calls import RouteCall

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


def client_address(scope: Scope) -> str:
    """Return the IP address of the client, which `--trusted-proxies` may name. Empty if it is unknown."""
    client = scope.get("client")
    try:
        found = ipaddress.ip_address(client[0]) if client else ""
        return str(getattr(found, "ipv4_mapped", None) or found)
    except ValueError:  # a proxy may send anything, such as `unknown`
        return ""


def check_workspace(headers: Headers, key: KeyRecord) -> None:
    """Raise `HttpError` 403 if the header `Anthropic-Workspace-Id` does not name the workspace of the key."""
    if headers.get("anthropic-workspace-id", key.workspace_id) != key.workspace_id:
        raise forbidden("the API key does not belong to the workspace in the header Anthropic-Workspace-Id")


def check_beta(headers: Headers) -> None:
    """Raise `HttpError` 400 if the request names more than one beta version of the API."""
    named = {name.strip() for value in headers.getlist("anthropic-beta") for name in value.split(",")}
    if named >= BETAS:
        raise invalid(f"anthropic-beta: name only one of {', '.join(sorted(BETAS))}")


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
        raise forbidden(
            f"the API key is not allowed to act as the actor in {ACTOR_HEADER} (`keys new --act-as` allows it)"
        )
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
    return request_key(call.caller.key.id, given[0], call.method, call.path, str(call.caller.actor), asked)


_IGNORED = frozenset({"beta"})
"""Names in a query that are ignored. The SDKs send `?beta=true`."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_object(body: bytes) -> dict[str, object]:
    """Return the JSON object in the body of a request. An empty body counts as an empty object. Raises `HttpError`."""
    if not body:
        return {}
    try:
        value = json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
        )
        if _SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise invalid("the body must be valid UTF-8, without lone surrogates") from None
    except RecursionError:
        raise invalid("the body is nested too deeply") from None
    except ValueError as error:
        raise invalid(f"the body is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise invalid("the body must be a JSON object")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"{twice[:80]!r}: the name occurs twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def read_query(query: bytes) -> dict[str, object]:
    """Return the fields in the query of a URL, as texts. Raises `HttpError`."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=40,
        )
    except ValueError:
        raise invalid("the query of the URL is malformed") from None
    kept = [(name, value) for name, value in pairs if name not in _IGNORED]
    lists = [(name, [value for other, value in kept if other == name]) for name, _ in kept if name.endswith("[]")]
    given: dict[str, object] = dict(kept) | dict(lists)
    if len(given) != len(kept) - len(lists) + len(dict(lists)):
        raise invalid("the query of the URL contains the same name twice")
    return given


PAGE_PREFIX = "page_"
_DIGEST_CHARS = 16


def cursor_of(of: str, *place: str) -> str:
    """Return the cursor of the next page of a list.

    `place` says where the next page begins. `of` identifies the list: memory store, route and filters.
    """
    text = json.dumps([digest(of)[:_DIGEST_CHARS], *place], ensure_ascii=False, separators=(",", ":"))
    return PAGE_PREFIX + base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii").rstrip("=")


def place_in(page: str, of: str, size: int) -> list[str]:
    """Return the `place` that was encoded in a cursor. The place has `size` parts.

    Raises `HttpError` 400 if the cursor is malformed or came from another list.
    """
    body = page.removeprefix(PAGE_PREFIX) if page.startswith(PAGE_PREFIX) else "!"
    try:
        found = json.loads(base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True))
        made_of, *place = [text + "" for text in found]  # raises for what is no text
    except (ValueError, RecursionError, TypeError):
        raise invalid("page: must be the next_page of an earlier answer") from None
    if made_of != digest(of)[:_DIGEST_CHARS] or len(place) != size:
        raise invalid("page: the cursor belongs to another list, or to a list with other filters")
    return place


def next_of(last: str | None, of: str) -> str | None:
    """Return the cursor of the page that follows the key `last`. Return None if there is no such page."""
    return None if last is None else cursor_of(of, last)


MAX_BODY_BYTES = 8 << 20
"""Maximum size of the body of a request that is no import."""
MAX_UPLOAD_BYTES = 4 << 30
"""Maximum size of the body of an import, and of the decompressed archive in it."""
MAX_FILES = 100_000
"""Maximum number of files in an import, because an import is one transaction."""
MAX_TEXT_BYTES = 64 << 20
"""Maximum size of one text in an import, because each text is loaded into memory."""
UPLOAD_S = 600.0
"""Deadline of an export or import, in seconds. It is the timeout of the SDKs."""
_PIECE_BYTES = 1 << 20


async def read_upload(request: Request) -> tuple[IO[bytes], str]:
    """Write the body of a request to a temporary file. Return it with the SHA-256 of its bytes. Raises `HttpError`."""
    hashed, file, waiting = hashlib.sha256(), spool(), bytearray()
    try:
        async for piece in pieces_in(request, MAX_UPLOAD_BYTES):
            waiting += piece
            if len(waiting) >= _PIECE_BYTES or not piece:
                hashed.update(waiting)
                await to_thread.run_sync(_write, file, bytes(waiting))
                waiting.clear()
    except BaseException:
        file.close()
        raise
    return file, hashed.hexdigest()


async def pieces_in(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, and an empty one at its end. Raises `HttpError` 413 if it is too long."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise invalid("Content-Encoding is not supported")
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                text = f"the body of the request must have at most {limit} bytes"
                raise HttpError(413, "request_too_large", text, "body_too_large")
            yield piece
    except ClientDisconnect:
        raise invalid("the body is incomplete") from None


def _write(file: IO[bytes], data: bytes) -> None:
    with mapped_os_errors():
        file.write(data)
        file.flush()
