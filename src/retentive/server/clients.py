"""OAuth clients: their metadata, from a registration (RFC 7591) or a document whose URL is the id of the client.

Nothing is stored for a client before somebody connects it: the id of a registered client contains the registration,
authenticated by a secret of the location. Source: MCP 2026-07-28, "Client Registration"; the draft "OAuth Client ID
Metadata Document", version 02.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from retentive.errors import Conflict, InvalidInput
from retentive.server.calls import Json
from retentive.server.options import is_loopback
from retentive.server.outgoing import sent
from retentive.server.webhooks import check_url
from retentive.store.location_records import LocationRecords

SECRET = "oauth_secret"  # noqa: S105 - name of a kind of records
"""Kind of the record with the secret that authenticates the ids of registered clients."""
PREFIX = "rtvd_"
MAX_DOCUMENT_BYTES = 16 << 10
SIGNING = "private_key_jwt"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
CACHED_S, MAX_CACHED_S, MAX_CACHED = 300, 86_400, 100
_AUTHORITY = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_DOCUMENT = re.compile(r"https?://[^/?#]+/[^?#]")
"""Begin of a URL with a path."""
_MAX_AGE = re.compile(r"max-age=(\d{1,9})")


class OAuthError(Exception):
    """Error of OAuth. `code` is the one of its RFC, `description` a sentence for people."""

    def __init__(self, code: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.code, self.description, self.status = code, description, status


def unknown_client(description: str) -> OAuthError:
    """Return the error for a client that is not known. Clients register again when they get it."""
    return OAuthError("invalid_client", description, 401)


def _check_redirect(uri: str) -> str:
    """Return `uri` if a browser may be sent there with a code. Raises `ValueError`.

    Source: MCP 2026-07-28, "Communication Security".
    """
    parts = urlsplit(uri)
    is_allowed = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
    is_plain = all("!" <= char <= "~" for char in uri) and not {"#", "\\"} & set(uri)
    if not (is_allowed and is_plain and _AUTHORITY.fullmatch(parts.netloc)):
        raise ValueError("a redirect URI must use https, or http to localhost, and have no user name and no fragment")
    return uri


Uri = Annotated[str, Field(max_length=1_000), AfterValidator(_check_redirect)]
Text = Annotated[str, Field(max_length=200), BeforeValidator(lambda value: value or "")]


class ClientMetadata(BaseModel):
    """What a client says of itself. Other fields are ignored."""

    redirect_uris: list[Uri] = Field(min_length=1, max_length=10)
    client_id: str | None = None
    client_name: Text = ""
    grant_types: list[str] = Field(default=["authorization_code"])
    response_types: list[str] = Field(default=["code"])
    token_endpoint_auth_method: str | None = None
    jwks_uri: str = ""


class OAuthClient(NamedTuple):
    """OAuth client. If it has a document, its id is the URL of the document, and the host of the URL is verified.

    With `jwks_uri`, it signs its requests for tokens with a key from there, as ChatGPT does.
    """

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    jwks_uri: str = ""

    @property
    def host(self) -> str:
        """Host of the document. Empty for a registered client, of which nothing is verified."""
        return "" if self.id.startswith(PREFIX) else urlsplit(self.id).netloc

    def redirect_uri(self, given: str) -> str:
        """Return the redirect URI of a request. Raises `OAuthError` if it is not one of the client's.

        On this machine any port will do, because programs listen on a free one (RFC 8252, section 7.3).
        """
        if not given and len(self.redirect_uris) == 1:
            return self.redirect_uris[0]
        if given not in self.redirect_uris and _portless(given) not in map(_portless, self.redirect_uris):
            raise OAuthError("invalid_request", "the redirect URI is not one that the client registered")
        return given


def _portless(uri: str) -> str:
    with suppress(ValueError):
        parts = urlsplit(_check_redirect(uri))
        if parts.scheme == "http":
            return parts._replace(netloc=parts.netloc.removesuffix(f":{parts.port}")).geturl()
    return uri


class Clients:
    """Finds OAuth clients by their ids. Threads may share it."""

    def __init__(self, records: LocationRecords, *, to_private: bool, monotonic: Callable[[], float] = time.monotonic):
        self._records, self._to_private, self._monotonic = records, to_private, monotonic
        self._cached: dict[str, tuple[float, bytes]] = {}

    def register(self, body: bytes) -> Json:
        """Return the registration of a client that sends its metadata. It is a public client, whatever it asked for.

        Raises `OAuthError`.
        """
        found = _metadata(body)
        described = json.dumps([found.client_name, *found.redirect_uris], separators=(",", ":")).encode()
        text = base64.urlsafe_b64encode(described).decode().rstrip("=")
        return {
            "client_id": f"{PREFIX}{text}.{self._signature(text)}",
            "client_id_issued_at": int(time.time()),
            **found.model_dump(include={"client_name", "redirect_uris"}),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    def find(self, client_id: str) -> OAuthClient:
        """Return the client with an id. Its document is fetched if it has one. Raises `OAuthError`."""
        if not client_id.startswith(PREFIX):
            return self._with_document(client_id)
        self.check(client_id)
        text = client_id.removeprefix(PREFIX).partition(".")[0]
        name, *uris = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return OAuthClient(client_id, name, tuple(uris))

    def check(self, client_id: str) -> None:
        """Raise `OAuthError` if no client can have the id. No document is fetched."""
        text, _, signature = client_id.removeprefix(PREFIX).partition(".")
        is_registered = client_id.startswith(PREFIX) and client_id.isascii()
        if is_registered and hmac.compare_digest(signature, self._signature(text)):
            return
        if is_registered or not _DOCUMENT.match(client_id):
            raise unknown_client("the client is unknown; it must register, or its id must be the URL of its metadata")

    def _signature(self, text: str) -> str:
        secret = self._records.get(SECRET, "clients")
        if secret is None:
            with suppress(Conflict):  # another process was first
                self._records.put(SECRET, "clients", secrets.token_hex(32), expected=None)
            return self._signature(text)
        return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()[:32]

    def _with_document(self, url: str) -> OAuthClient:
        self.check(url)
        try:
            found = _metadata(self._fetched(url))
            if found.client_id != url or not found.client_name:
                raise unknown_client("the metadata document of the client names another client_id, or no client_name")
            is_signing = found.token_endpoint_auth_method == SIGNING and bool(found.jwks_uri)
            if not is_signing and found.token_endpoint_auth_method not in {None, "none"}:
                raise unknown_client("token_endpoint_auth_method must be none, or private_key_jwt with a jwks_uri")
        except OAuthError:
            self._cached.pop(url, None)
            raise
        uris = tuple(found.redirect_uris)
        return OAuthClient(url, found.client_name, uris, found.jwks_uri if is_signing else "")

    def check_signature(self, client_id: str, jwks_uri: str, form: Mapping[str, str], audiences: Sequence[str]) -> None:
        """Raise `OAuthError` unless a request is signed for one of the audiences (RFC 7523), if the client has keys."""
        from retentive.server.oauth import is_assertion  # noqa: PLC0415 - imports cryptography

        assertion, is_jwt = form.get("client_assertion", ""), form.get("client_assertion_type") == ASSERTION_TYPE
        for _ in range(2 if jwks_uri else 0):
            if is_jwt and is_assertion(assertion, self._fetched(jwks_uri), client_id, audiences):
                return
            self._cached.pop(jwks_uri, None)  # the client may have a new key
        if jwks_uri:
            raise unknown_client("the client must sign its request: client_assertion is missing or not valid")

    def _fetched(self, url: str) -> bytes:
        """Return the document at a URL, from the cache or from there. Raises `OAuthError`."""
        until, body = self._cached.get(url, (0.0, b""))
        if until > self._monotonic():
            return body
        try:
            check_url(url, to_private=self._to_private)
            reply = sent(
                "GET", url, {"accept": "application/json"},
                to_private=self._to_private, max_bytes=MAX_DOCUMENT_BYTES + 1,
            )  # fmt: skip
        except (OSError, HTTPException, ValueError, InvalidInput):
            raise unknown_client("a document of the client cannot be fetched") from None
        if reply.status != 200 or len(reply.body) > MAX_DOCUMENT_BYTES:
            raise unknown_client("a document of the client is missing or too long")
        control = reply.headers.get("cache-control", "")
        age = _MAX_AGE.search(control)
        kept_s = 0 if "no-store" in control or "no-cache" in control else int(age[1]) if age else CACHED_S
        if len(self._cached) >= MAX_CACHED:
            self._cached.clear()
        self._cached[url] = self._monotonic() + min(kept_s, MAX_CACHED_S), reply.body
        return reply.body


def _metadata(body: bytes) -> ClientMetadata:
    try:
        found = ClientMetadata.model_validate_json(body)
    except ValidationError as error:
        places = [*error.errors()[0]["loc"], ""]
        code: Literal["invalid_redirect_uri", "invalid_client_metadata"] = (
            "invalid_redirect_uri" if places[0] == "redirect_uris" else "invalid_client_metadata"
        )
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise OAuthError(code, f"{places[0] or 'the metadata'}: {message}"[:300]) from None
    if "authorization_code" not in found.grant_types or "code" not in found.response_types:
        raise OAuthError("invalid_client_metadata", "the client must use the grant type authorization_code")
    return found
