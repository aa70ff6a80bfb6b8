"""Fetches the public keys of OpenID issuers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, RSAKey

from retentive.errors import InvalidInput
from retentive.server.errors import overloaded

ALGORITHMS = ("RS256", "ES256")
"""Accepted algorithms. Algorithms with a shared secret, and `none`, are refused."""
KEYS_S = 600.0
REFETCH_S = 30.0
"""Minimum time between two fetches from an issuer, even if tokens name unknown keys."""
STALE_S = 3_600.0
"""Seconds for which outdated keys stay in use while the issuer cannot be reached."""
TIMEOUT_S = 5.0
MAX_BYTES = 1 << 20
MIN_RSA_BITS = 2_048
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def check_url(url: str) -> None:
    """Raise `InvalidInput` if `url` is not an https URL. For a host on this machine, http is allowed too.

    Without TLS, an attacker on the network could replace a key and forge tokens.
    """
    parts = urlsplit(url)
    if not (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOCAL)) or not parts.hostname:
        raise InvalidInput(f"{url[:200]!r} must be an https URL")


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuse redirects, so that every URL is checked before it is used."""


class KeySource:
    """Cached public keys of one OpenID issuer. Threads may share it."""

    def __init__(self, issuer: str, jwks_uri: str | None, monotonic: Callable[[], float]) -> None:
        self._issuer = issuer
        self._uri = jwks_uri
        self._monotonic = monotonic
        self._opener = build_opener(_NoRedirects, ProxyHandler({})) if _is_local(issuer) else build_opener(_NoRedirects)
        self._keys: Mapping[str, Key] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._lock = Lock()

    def find(self, key_id: object) -> Key:
        """Return the public key with this id. If it is unknown, fetch the keys again first. Raises `KeyError`.

        Also raises `HttpError` 503 if the issuer cannot be reached and the cached keys are too old.
        """
        now = self._monotonic()
        is_due = key_id not in self._keys or self._fetched_at + KEYS_S <= now
        if is_due and self._lock.acquire(blocking=not self._keys):  # while one thread fetches, others use known keys
            try:
                if self._tried_at + REFETCH_S <= now:
                    self._tried_at = now
                    self._fetch(now)
            finally:
                self._lock.release()
        if self._fetched_at + KEYS_S + STALE_S <= now:
            raise overloaded("the server cannot fetch the public keys of the token's issuer")
        return self._keys[str(key_id)]

    def _fetch(self, now: float) -> None:
        try:
            uri = self._uri or self._discovered()
            self._keys = {each["kid"]: key for each in self._json(uri)["keys"] if (key := _usable(each)) is not None}
            self._fetched_at = now
        except (URLError, OSError, InvalidInput, ValueError, KeyError, TypeError, RecursionError):
            return  # the cached keys stay in use for STALE_S

    def _discovered(self) -> str:
        found = self._json(self._issuer.rstrip("/") + "/.well-known/openid-configuration")
        if found["issuer"] != self._issuer:
            raise InvalidInput("the metadata of the issuer names a different issuer")
        return str(found["jwks_uri"])

    def _json(self, url: str) -> Any:
        check_url(url)
        request = Request(url, headers={"accept": "application/json"})  # noqa: S310 - checked above
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                data = response.read(MAX_BYTES + 1)
        except HTTPError as error:
            error.close()  # the error holds the open connection
            raise
        if len(data) > MAX_BYTES:
            raise InvalidInput("the response of the issuer is too long")
        return json.loads(data)


def _usable(given: object) -> Key | None:
    """Return the key of a JSON Web Key that can verify a token, else None."""
    if (
        not isinstance(given, dict)
        or not isinstance(given.get("kid"), str)
        or given.get("alg", "RS256") not in ALGORITHMS
    ):
        return None
    try:
        key = JWKRegistry.import_key(given)
        key.check_use("sig")
    except (JoseError, ValueError, KeyError, TypeError):
        return None
    return None if isinstance(key, RSAKey) and key.public_key.key_size < MIN_RSA_BITS else key


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in LOCAL
