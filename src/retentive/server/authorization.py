"""OAuth 2.1 authorization server for MCP clients, such as the connectors of claude.ai and ChatGPT.

A person who is signed in to the console connects a client: it gets a part of the person's rights, at `/mcp` only. All
of it is one record for each connected client, so any process continues what another one began. Source: OAuth 2.1
(draft 13), RFC 7009 (revocation), 7636 (PKCE), 8414 (metadata), 8707 (resource), 9207 (issuer); MCP 2026-07-28.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from retentive.errors import Conflict
from retentive.server.calls import Json
from retentive.server.clients import Clients, OAuthClient, OAuthError
from retentive.server.keys import TOKEN_PREFIX
from retentive.server.kinds import RecordKind
from retentive.server.requests import MCP
from retentive.server.rights import KeyRecord
from retentive.store.location_records import LocationRecords, LogEntry, entry_of
from retentive.values.text import digest
from retentive.wire.stores import Scope

DESCRIPTION = "/.well-known/oauth-authorization-server"
AUTHORIZE, TOKEN, REGISTER, REVOKE = "/console/authorize", "/oauth/token", "/oauth/register", "/oauth/revoke"
GRANTED: tuple[Scope, ...] = ("read", "write")
"""Scopes that a client can get. The others are for people."""
KIND = "connected_client"
CLIENT_PREFIX = TOKEN_PREFIX + "client_"
"""Prefix of the ids of the rights of connected clients."""
CODE_S, ACCESS_S, REFRESH_S = 60, 3_600, 30 * 86_400
"""Lifetimes in seconds. Each refresh begins another `REFRESH_S`."""
MAX_ACCESS = 10
"""Access tokens of a client that are valid at the same time. Requests under way keep theirs after a refresh."""
CODE_PREFIX, ACCESS_PREFIX, REFRESH_PREFIX = "rtvc", "rtva", "rtvr"
FIELDS = {"authorization_code": "code", "refresh_token": "refresh_token"}
"""Field that a request for tokens of each grant type has."""
_CHALLENGE, _VERIFIER = re.compile("[A-Za-z0-9_-]{43}"), re.compile("[A-Za-z0-9._~-]{43,128}")


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """Client that a person connected. `key_id` names the person's rights, of which the client has a part.

    `store_id` is the only memory store that it may see; empty for all that the person sees. `unused` is the SHA-256
    digest of the code or refresh token with which it gets its next tokens, and `access` has those of its access tokens,
    with the times at which they expire.
    """

    id: str
    client_id: str
    name: str
    host: str
    redirect_uri: str
    key_id: str
    workspace_id: str
    actor: str
    scopes: tuple[Scope, ...]
    store_id: str
    resource: str
    challenge: str
    created_at: datetime
    expires_at: float
    unused: str
    access: tuple[tuple[str, float], ...] = ()


def asked(query: Mapping[str, str], base: str) -> tuple[tuple[Scope, ...], str]:
    """Return the scopes that a client asks for, and its PKCE challenge. Raises `OAuthError`, which the client gets."""
    kind = query.get("response_type")
    if kind != "code":
        raise OAuthError("unsupported_response_type" if kind else "invalid_request", "response_type must be code")
    challenge = query.get("code_challenge", "")
    if query.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
        raise OAuthError("invalid_request", "PKCE is required: a code_challenge with the code_challenge_method S256")
    _check_resource(query, base)
    wanted = query.get("scope", " ".join(GRANTED)).split()
    scopes = tuple(scope for scope in GRANTED if scope in wanted)
    if not scopes:
        raise OAuthError("invalid_scope", f"scope must contain {' or '.join(GRANTED)}")
    return scopes, challenge


class Authorization:
    """Issues and checks the tokens of connected clients. Threads and processes may share its records.

    The code and all tokens of a connected client contain the same secret, of which the id of its record is a digest. So
    whoever sends an old one had it once, and is no stranger. `rights` returns the current rights of a person by the id
    of their key or sign-in, or None.
    """

    def __init__(self, records: LocationRecords, clients: Clients, rights: Callable[[str], KeyRecord | None]) -> None:
        self._known = RecordKind(records, KIND, ConnectedClient)
        self.clients, self._rights, self._clock = clients, rights, time.time

    def connect(
        self,
        key: KeyRecord,
        client: OAuthClient,
        base: str,
        *,
        redirect_uri: str,
        challenge: str,
        scopes: tuple[Scope, ...],
        store_id: str,
        address: str,
    ) -> str:
        """Record that a person connects a client, and return the code with which it gets its tokens.

        `address` is the one of the person's browser.
        """
        family, now = secrets.token_hex(16), self._clock()
        code = f"{CODE_PREFIX}_{family}_{secrets.token_hex(32)}"
        made = ConnectedClient(
            _id(family), client.client_id, client.client_name or "", client.host, redirect_uri, key.id,
            key.workspace_id, str(key.actor), scopes, store_id, base + MCP, challenge,
            datetime.fromtimestamp(now, UTC), now + CODE_S, digest(code),
        )  # fmt: skip
        self._known.put(made.id, made, before=None, entry=self._entry("connect", made, key=key.id, address=address))
        return code

    def issue(self, form: Mapping[str, str], base: str) -> Json:
        """Answer a request for tokens. Raises `OAuthError`."""
        kind = _needed(form, "grant_type")
        if kind not in FIELDS:
            raise OAuthError("unsupported_grant_type", f"grant_type must be {' or '.join(FIELDS)}")
        self.clients.check(_needed(form, "client_id"))
        while True:
            with suppress(Conflict):  # another request with the same code or token was first; now this one is refused
                return self._issued(form, FIELDS[kind], base)

    def _issued(self, form: Mapping[str, str], field: str, base: str) -> Json:
        """Replace the code or refresh token in a field of the request by new tokens."""
        given, now = _needed(form, field), self._clock()
        found = self._stored(given)
        refusal = OAuthError("invalid_grant", f"the {field} is unknown, was used, has expired, or is another client's")
        if found is None:
            raise refusal
        if found.unused != digest(given):  # it was used before: somebody else has it too, and perhaps the new tokens
            self.disconnect(found, f"reused_{field}")
            raise refusal
        if found.expires_at <= now or form["client_id"] != found.client_id or found.resource != base + MCP:
            raise refusal
        if self._rights(found.key_id) is None:
            raise OAuthError("invalid_grant", "the person who connected the client has no access any more")
        _check_resource(form, base)
        if field == "code":
            _check_code(form, found)
        family, scope = given.split("_")[1], " ".join(found.scopes)
        access, refresh = (f"{prefix}_{family}_{secrets.token_hex(32)}" for prefix in (ACCESS_PREFIX, REFRESH_PREFIX))
        kept = (*found.access[1 - MAX_ACCESS :], (digest(access), now + ACCESS_S))
        after = replace(found, unused=digest(refresh), access=kept, expires_at=now + REFRESH_S)
        self._known.put(found.id, after, before=found)
        lifetime = {"token_type": "Bearer", "expires_in": ACCESS_S, "scope": scope}
        return {"access_token": access, "refresh_token": refresh, **lifetime}

    def revoke(self, form: Mapping[str, str]) -> Json:
        """Revoke a token, and with it all access of its client. Raises `OAuthError`."""
        token, client_id = _needed(form, "token"), _needed(form, "client_id")
        self.clients.check(client_id)
        found = self._stored(token)
        if found is not None and digest(token) in {found.unused, *dict(found.access)}:
            if found.client_id != client_id:
                raise OAuthError("unauthorized_client", "the token is another client's")
            self.disconnect(found)
        return {}  # an unknown token is as good as a revoked one

    def authenticated(self, token: str, base: str) -> KeyRecord | None:
        """Return the rights of an access token for the server at `base`, or None if it has none."""
        found = self._stored(token)
        until = 0.0 if found is None else dict(found.access).get(digest(token), 0.0)
        if found is None or until <= self._clock() or found.resource != base + MCP:
            return None
        return self._granted(found, datetime.fromtimestamp(until, UTC).isoformat())

    def is_active(self, key: KeyRecord) -> bool:
        """Return whether a connected client still has the rights `key`."""
        found = self._known.get(key.id.removeprefix(CLIENT_PREFIX))
        is_same = found is not None and self._granted(found, key.expires_at) == key
        return is_same and key.status_at(datetime.fromtimestamp(self._clock(), UTC)) == "active"

    def _granted(self, found: ConnectedClient, until: str | None) -> KeyRecord | None:
        """Return the rights of a client, which are a part of the person's. None if the person has none left."""
        own = self._rights(found.key_id)
        return own and own.limited(
            found.scopes, found.store_id, id=CLIENT_PREFIX + found.id, name=found.name, act_as=(),
            principal=str(own.actor), created_at=found.created_at.isoformat(), expires_at=until,
        )  # fmt: skip

    def connected(self, workspace_id: str, actor: str | None = None) -> list[ConnectedClient]:
        """Return the connected clients of a workspace, or of one actor in it, newest first."""
        now = self._clock()
        chosen = (
            each for each in self._known.list() if each.workspace_id == workspace_id and actor in {None, each.actor}
        )
        kept = (each for each in chosen if each.access and each.expires_at > now)
        return sorted(kept, key=lambda each: each.created_at, reverse=True)

    def disconnect(self, found: ConnectedClient, outcome: str = "ok", **facts: str) -> None:
        """Revoke all tokens of a client. `facts` are fields of the audit entry, such as who does it (`by`)."""
        self._known.put(found.id, None, entry=self._entry("disconnect", found, outcome, **facts))

    def _stored(self, token: str) -> ConnectedClient | None:
        """Return the record that a code or token names. The token is not checked."""
        parts = token.split("_")
        return self._known.get(_id(parts[1])) if len(parts) == 3 else None

    def _entry(self, operation: str, found: ConnectedClient, outcome: str = "ok", **facts: str) -> LogEntry:
        own = {"workspace": found.workspace_id, "client": found.client_id}
        present = {**own, **{name: value for name, value in facts.items() if value}}
        return entry_of(operation, found.actor, outcome, integration="oauth", clock=self._clock, **present)


def remove_expired(records: LocationRecords, now: float) -> None:
    """Remove the records of clients whose code or refresh token has expired."""
    known = RecordKind(records, KIND, ConnectedClient)
    for each in known.list():
        if each.expires_at <= now:
            with suppress(Conflict):  # it was used at the last moment
                known.put(each.id, None, before=each)


def _check_code(form: Mapping[str, str], found: ConnectedClient) -> None:
    """Raise `OAuthError` unless the client that sends a code is the one that asked for it."""
    verifier = _needed(form, "code_verifier")
    if form.get("redirect_uri", found.redirect_uri) != found.redirect_uri:
        raise OAuthError("invalid_grant", "the redirect_uri is not the one of the authorization request")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    if not _VERIFIER.fullmatch(verifier) or challenge != found.challenge:
        raise OAuthError("invalid_grant", "the code_verifier does not belong to the code_challenge")


def _check_resource(given: Mapping[str, str], base: str) -> None:
    """Raise `OAuthError` if a request asks for tokens for something else than `/mcp`, with any memory store."""
    own = base + MCP
    if given.get("resource", own).partition("?")[0].rstrip("/").lower() != own.lower():
        raise OAuthError("invalid_target", f"resource must be {own}")


def _needed(form: Mapping[str, str], name: str) -> str:
    if not form.get(name):
        raise OAuthError("invalid_request", f"{name} is missing")
    return form[name]


def _id(family: str) -> str:
    return digest(family)[:16]
