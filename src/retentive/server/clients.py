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
from contextlib import suppress
from http.client import HTTPException
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, ValidationError

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
MAX_DESCRIBED_BYTES = 4 << 10
"""Registrations are part of URLs, which the server limits to 16 KiB, with other parameters and encoded once more."""
_AUTHORITY = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_DOCUMENT = re.compile(r"https?://[^/?#]+/[^?#]")
"""Begin of a URL with a path."""


class OAuthError(Exception):
    """Error of OAuth. `code` is the one of its RFC, `description` a sentence for people."""

    def __init__(self, code: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.code, self.description, self.status = code, description, status


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


Uri = Annotated[str, AfterValidator(_check_redirect)]


class OAuthClient(BaseModel):
    """What a client says of itself. Other fields are ignored.

    If it has a document, its id is the URL of the document, and the host of the URL is verified.
    """

    redirect_uris: list[Uri] = Field(min_length=1)
    client_id: str = ""
    client_name: str | None = Field(None, max_length=200)
    token_endpoint_auth_method: str | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None

    @property
    def host(self) -> str:
        """Host of the document. Empty for a registered client, of which nothing is verified."""
        return "" if self.client_id.startswith(PREFIX) else urlsplit(self.client_id).netloc

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

    def __init__(self, records: LocationRecords, *, to_private: bool) -> None:
        self._records, self._to_private = records, to_private

    def register(self, body: bytes) -> Json:
        """Return the registration of a client that sends its metadata. It is a public client, whatever it asked for.

        Raises `OAuthError`.
        """
        own = _client(body).model_dump(include={"client_name", "redirect_uris"}, exclude_none=True)
        described = json.dumps(own, separators=(",", ":")).encode()
        if len(described) > MAX_DESCRIBED_BYTES:
            raise OAuthError("invalid_client_metadata", "client_name and redirect_uris are too long for a client_id")
        text = base64.urlsafe_b64encode(described).decode().rstrip("=")
        return {
            "client_id": f"{PREFIX}{text}.{self._signature(text)}",
            "client_id_issued_at": int(time.time()),
            **own,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    def find(self, client_id: str) -> OAuthClient:
        """Return the client with an id. Its document is fetched if it has one. Raises `OAuthError`."""
        self.check(client_id)
        if client_id.startswith(PREFIX):
            text = client_id.removeprefix(PREFIX).partition(".")[0]
            described = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return _client(described).model_copy(update={"client_id": client_id})
        found = _client(self._fetched(client_id))
        if found.client_id != client_id or not found.client_name:
            raise _unknown("the metadata document of the client names another client_id, or no client_name")
        methods = found.token_endpoint_auth_methods_supported or ()  # ChatGPT signs its requests, if it can
        if not {None, "none"} & {found.token_endpoint_auth_method, *methods}:
            raise _unknown("token_endpoint_auth_method must be none, or the methods that are supported contain it")
        return found

    def check(self, client_id: str) -> None:
        """Raise `OAuthError` if no client can have the id. No document is fetched."""
        if client_id.startswith(PREFIX):
            text, _, signature = client_id.removeprefix(PREFIX).partition(".")
            is_known = client_id.isascii() and hmac.compare_digest(signature, self._signature(text))
        else:
            is_known = _DOCUMENT.match(client_id) is not None
        if not is_known:
            raise _unknown("the client is unknown; it must register, or its id must be the URL of its metadata")

    def _signature(self, text: str) -> str:
        secret = self._records.get(SECRET, "clients")
        if secret is None:
            with suppress(Conflict):  # another process was first
                self._records.put(SECRET, "clients", secrets.token_hex(32), expected=None)
            return self._signature(text)
        return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()[:32]

    def _fetched(self, url: str) -> bytes:
        try:
            check_url(url, to_private=self._to_private)
            accept = {"accept": "application/json"}
            status, body = sent("GET", url, accept, to_private=self._to_private, max_bytes=MAX_DOCUMENT_BYTES + 1)
        except (OSError, HTTPException, ValueError, InvalidInput):
            raise _unknown("the metadata document of the client cannot be fetched") from None
        if status != 200 or len(body) > MAX_DOCUMENT_BYTES:
            raise _unknown("the metadata document of the client is missing or too long")
        return body


def _client(body: bytes) -> OAuthClient:
    try:
        return OAuthClient.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = (*first["loc"], "the metadata")[0]
        code = "invalid_redirect_uri" if place == "redirect_uris" else "invalid_client_metadata"
        raise OAuthError(code, f"{place}: {first['msg'].removeprefix('Value error, ')}"[:300]) from None


def _unknown(description: str) -> OAuthError:
    """Return the error for a client that is not known. Clients register again when they get it."""
    return OAuthError("invalid_client", description, 401)
