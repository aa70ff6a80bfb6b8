"""OAuth 2.1 authorization server for MCP clients, such as the connectors of claude.ai and ChatGPT.

A person who is signed in to the console connects a client: it gets a part of the person's rights, at `/mcp` only. All
of it is one record for each connected client, so any process continues what another one began. Source: OAuth 2.1
(draft 13), RFC 7009 (revocation), 7636 (PKCE), 8414 (metadata), 8707 (resource), 9207 (issuer); MCP 2026-07-28.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from pydantic import TypeAdapter

from retentive.errors import Conflict
from retentive.server.calls import Json
from retentive.server.clients import Clients, OAuthClient, OAuthError
from retentive.server.keys import TOKEN_PREFIX
from retentive.server.requests import MCP
from retentive.server.rights import KeyRecord
from retentive.store.location_records import LocationRecords, entry_of
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
_CHALLENGE, _VERIFIER = re.compile("[A-Za-z0-9_-]{43}"), re.compile("[A-Za-z0-9._~-]{43,128}")
_ID = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Stored access token."""

    digest: str
    expires_at: float
    scopes: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """Client that a person connected. `key_id` names the person's rights, of which the client has a part.

    `store_id` is the only memory store that it may see; empty for all that the person sees. `code`, `family` and
    `refresh` are SHA-256 digests. All refresh tokens of a client have the same `family` in their text, so an old one is
    told from a forged one. With `jwks_uri`, the client signs its requests for tokens.
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
    code: str
    jwks_uri: str
    created_at: float
    expires_at: float
    is_redeemed: bool = False
    family: str = ""
    refresh: str = ""
    access: tuple[AccessToken, ...] = ()

    @property
    def created(self) -> datetime:
        """Time at which the person connected the client."""
        return datetime.fromtimestamp(self.created_at, UTC)


_RECORD = TypeAdapter(ConnectedClient)


class Asked(NamedTuple):
    """What a client asks for: scopes, and perhaps the key or id of a memory store."""

    scopes: tuple[Scope, ...]
    store: str
    challenge: str


def asked(query: Mapping[str, str], base: str) -> Asked:
    """Parse an authorization request to the server at `base`. Raises `OAuthError`, which the client gets."""
    if query.get("response_type", "code") != "code":
        raise OAuthError("unsupported_response_type", "response_type must be code")
    if "response_type" not in query:
        raise OAuthError("invalid_request", "response_type is missing")
    challenge = query.get("code_challenge", "")
    if query.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
        raise OAuthError("invalid_request", "PKCE is required: a code_challenge with the code_challenge_method S256")
    store = store_in(query.get("resource"), base)
    wanted = query.get("scope", " ".join(GRANTED)).split()
    scopes = tuple(scope for scope in GRANTED if scope in wanted)
    if not scopes:
        raise OAuthError("invalid_scope", f"scope must contain {' or '.join(GRANTED)}")
    return Asked(scopes, store, challenge)


def store_in(resource: str | None, base: str) -> str:
    """Return the memory store that a resource names, empty if none. Raises `OAuthError` if it is not `/mcp`."""
    if resource is None:
        return ""
    try:
        parts, own = urlsplit(resource), urlsplit(base)
        given = parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/")
        query = parse_qs(parts.query, strict_parsing=bool(parts.query), max_num_fields=5)
    except ValueError:
        given, query = ("", "", ""), {}
    if given != (own.scheme, own.netloc.lower(), MCP) or "#" in resource:
        raise OAuthError("invalid_target", f"resource must be {base}{MCP}")
    return query.get("store", [""])[0]


class Authorization:
    """Issues and checks the tokens of connected clients. Threads and processes may share its records.

    `rights` returns the current rights of a person by the id of their key or sign-in, or None.
    """

    def __init__(
        self,
        records: LocationRecords,
        clients: Clients,
        rights: Callable[[str], KeyRecord | None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._records, self.clients, self._rights, self._clock = records, clients, rights, clock

    def connect(
        self, key: KeyRecord, client: OAuthClient, redirect_uri: str, want: Asked, base: str, *, address: str = ""
    ) -> str:
        """Record that a person connects a client, and return the code with which it gets its tokens.

        `want` has what the person grants. `address` is the one of the person's browser.
        """
        client_id, now = secrets.token_hex(8), self._clock()
        code = f"{CODE_PREFIX}_{client_id}_{secrets.token_hex(32)}"
        made = ConnectedClient(
            client_id, client.id, client.name, client.host, redirect_uri, key.id, key.workspace_id, str(key.actor),
            want.scopes, want.store, base + MCP, want.challenge, _digest(code), client.jwks_uri, now, now + CODE_S,
        )  # fmt: skip
        self._put(made, None)
        self._log("connect", made.actor, made.workspace_id, key=key.id, client=client.id, address=address)
        return code

    def issue(self, form: Mapping[str, str], base: str) -> Json:
        """Answer a request for tokens. Raises `OAuthError`."""
        kinds = {"authorization_code": self._redeem, "refresh_token": self._refresh}
        kind = form.get("grant_type", "")
        if kind not in kinds:
            code = "unsupported_grant_type" if kind else "invalid_request"
            raise OAuthError(code, f"grant_type must be {' or '.join(kinds)}")
        self.clients.check(_needed(form, "client_id"))
        while True:
            try:
                return kinds[kind](form, base)
            except Conflict:  # another request with the same code or token was first; now this one is refused
                continue

    def _redeem(self, form: Mapping[str, str], base: str) -> Json:
        refusal = OAuthError("invalid_grant", "the code is unknown, was used, has expired, or is another client's")
        code, verifier = _needed(form, "code"), _needed(form, "code_verifier")
        text, found = self._stored(code)
        if found is None or not _is_same(found.code, code):
            raise refusal
        if found.is_redeemed:  # somebody else has the code too, and perhaps the tokens
            self.disconnect(found, "reused_code")
            raise refusal
        if found.expires_at <= self._clock() or form["client_id"] != found.client_id:
            raise refusal
        if form.get("redirect_uri", found.redirect_uri) != found.redirect_uri:
            raise OAuthError("invalid_grant", "the redirect_uri is not the one of the authorization request")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        if not _VERIFIER.fullmatch(verifier) or not hmac.compare_digest(challenge, found.challenge):
            raise OAuthError("invalid_grant", "the code_verifier does not belong to the code_challenge")
        return self._issued(form, base, text, found, secrets.token_hex(32))

    def _refresh(self, form: Mapping[str, str], base: str) -> Json:
        refusal = OAuthError("invalid_grant", "the refresh token is unknown, was used, has expired, or is revoked")
        token = _needed(form, "refresh_token")
        text, found = self._stored(token)
        family = token.split("_")[2] if found is not None else ""
        if found is None or not _is_same(found.family, family):
            raise refusal
        if not _is_same(found.refresh, token):
            self.disconnect(found, "reused_refresh_token")
            raise refusal
        if found.expires_at <= self._clock() or form["client_id"] != found.client_id:
            raise refusal
        return self._issued(form, base, text, found, family)

    def _issued(self, form: Mapping[str, str], base: str, text: str, found: ConnectedClient, family: str) -> Json:
        """Replace the tokens of a client, and return the new ones."""
        self.clients.check_signature(found.client_id, found.jwks_uri, form, (base, base + TOKEN))
        store_in(form.get("resource"), base)
        if found.resource != base + MCP or self._rights(found.key_id) is None:
            raise OAuthError("invalid_grant", "the person who connected the client has no access any more")
        wanted = form.get("scope", " ".join(found.scopes)).split()
        scopes = tuple(scope for scope in GRANTED if scope in wanted)
        if not scopes or not set(found.scopes).issuperset(scopes):
            raise OAuthError("invalid_scope", f"scope must be a part of {' '.join(found.scopes)}")
        now = self._clock()
        access = f"{ACCESS_PREFIX}_{found.id}_{secrets.token_hex(32)}"
        refresh = f"{REFRESH_PREFIX}_{found.id}_{family}_{secrets.token_hex(32)}"
        kept = [each for each in found.access if each.expires_at > now][1 - MAX_ACCESS :]
        tokens = (*kept, AccessToken(_digest(access), now + ACCESS_S, scopes))
        after = replace(found, is_redeemed=True, family=_digest(family), refresh=_digest(refresh), access=tokens)
        self._put(replace(after, expires_at=now + REFRESH_S), text)
        lifetime = {"token_type": "Bearer", "expires_in": ACCESS_S, "scope": " ".join(scopes)}
        return {"access_token": access, "refresh_token": refresh, **lifetime}

    def revoke(self, form: Mapping[str, str], base: str) -> None:
        """Revoke a token, and with it all access of its client. Raises `OAuthError`."""
        token, client_id = _needed(form, "token"), _needed(form, "client_id")
        self.clients.check(client_id)
        _, found = self._stored(token)
        if found is None or _digest(token) not in {found.refresh, *(each.digest for each in found.access)}:
            return  # an unknown token is as good as a revoked one
        if found.client_id != client_id:
            raise OAuthError("unauthorized_client", "the token is another client's")
        self.clients.check_signature(client_id, found.jwks_uri, form, (base, base + TOKEN, base + REVOKE))
        self.disconnect(found)

    def authenticated(self, token: str, base: str) -> KeyRecord | None:
        """Return the rights of an access token for the server at `base`, or None if it has none."""
        (_, found), now = self._stored(token), self._clock()
        access = next((each for each in found.access if _is_same(each.digest, token)), None) if found else None
        if found is None or access is None or access.expires_at <= now or found.resource != base + MCP:
            return None
        return self._granted(found, access)

    def is_active(self, key: KeyRecord) -> bool:
        """Return whether a connected client still has the rights `key`."""
        text = self._records.get(KIND, key.id.removeprefix(CLIENT_PREFIX))
        found = None if text is None else _RECORD.validate_json(text)
        is_same = found is not None and any(self._granted(found, each) == key for each in found.access)
        return is_same and key.status_at(datetime.fromtimestamp(self._clock(), UTC)) == "active"

    def _granted(self, found: ConnectedClient, access: AccessToken) -> KeyRecord | None:
        """Return the rights of an access token, which are a part of the person's. None if the person has none left."""
        own = self._rights(found.key_id)
        if own is None:
            return None
        until = datetime.fromtimestamp(access.expires_at, UTC).isoformat()
        named = {"id": CLIENT_PREFIX + found.id, "name": found.name, "act_as": (), "principal": str(own.actor)}
        named |= {"created_at": found.created.isoformat(), "expires_at": until}
        return own.limited(access.scopes, found.store_id, **named)

    def connected(self, workspace_id: str, actor: str | None = None) -> list[ConnectedClient]:
        """Return the connected clients of a workspace, or of one actor in it, newest first."""
        found = [_RECORD.validate_json(text) for _, text in self._records.list(KIND)]
        chosen = (each for each in found if each.workspace_id == workspace_id and actor in {None, each.actor})
        now = self._clock()
        kept = (each for each in chosen if each.is_redeemed and each.expires_at > now)
        return sorted(kept, key=lambda each: each.created_at, reverse=True)

    def disconnect(self, found: ConnectedClient, outcome: str = "ok", **facts: str) -> None:
        """Revoke all tokens of a client. `facts` are fields of the audit entry, such as who does it (`by`)."""
        self._records.put(KIND, found.id, None)
        self._log("disconnect", found.actor, found.workspace_id, outcome, client=found.client_id, **facts)

    def refused(self, key: KeyRecord, client: OAuthClient, *, address: str = "") -> None:
        """Log that a person refused to connect a client."""
        facts = {"key": key.id, "client": client.id, "address": address}
        self._log("connect", str(key.actor), key.workspace_id, "refused", **facts)

    def _stored(self, token: str) -> tuple[str, ConnectedClient | None]:
        """Return the record that a code or token names, with its stored text. The token is not checked."""
        parts = token.split("_")
        text = self._records.get(KIND, parts[1]) if len(parts) > 2 and _ID.fullmatch(parts[1]) else None
        return text or "", None if text is None else _RECORD.validate_json(text)

    def _put(self, record: ConnectedClient, expected: str | None) -> None:
        self._records.put(KIND, record.id, _RECORD.dump_json(record).decode(), expected=expected)

    def _log(self, operation: str, actor: str, workspace: str, outcome: str = "ok", **facts: str) -> None:
        present = {"workspace": workspace, **{name: value for name, value in facts.items() if value}}
        self._records.log(entry_of(operation, actor, outcome, integration="oauth", clock=self._clock, **present))


def remove_expired(records: LocationRecords, now: float) -> None:
    """Remove the records of clients whose code or refresh token has expired."""
    for name, text in records.list(KIND):
        if _RECORD.validate_json(text).expires_at <= now:
            with suppress(Conflict):  # it was used at the last moment
                records.put(KIND, name, None, expected=text)


def _needed(form: Mapping[str, str], name: str) -> str:
    if not form.get(name):
        raise OAuthError("invalid_request", f"{name} is missing")
    return form[name]


def _is_same(digest: str, text: str) -> bool:
    return hmac.compare_digest(digest, _digest(text))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
