"""Fetches the public keys of OpenID issuers, and verifies the signatures of tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from retentive.errors import InvalidInput
from retentive.server.errors import overloaded

ALGORITHMS = {"RS256": "RSA", "ES256": "EC"}
"""Accepted algorithms, with the key type of each. Algorithms with a shared secret, and `none`, are refused."""
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
        self._keys: Mapping[tuple[str, str], RSAKey | ECKey] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._lock = Lock()

    def find(self, algorithm: str, key_id: str) -> RSAKey | ECKey | None:
        """Return the public key with this algorithm and id, or None. For an unknown id, fetch the keys again first.

        Raises `HttpError` 503 if the issuer cannot be reached and the cached keys are too old.
        """
        now = self._monotonic()
        is_due = (algorithm, key_id) not in self._keys or self._fetched_at + KEYS_S <= now
        if is_due and self._lock.acquire(blocking=not self._keys):  # while one thread fetches, others use known keys
            try:
                if self._tried_at + REFETCH_S <= now:
                    self._tried_at = now
                    self._fetch(now)
            finally:
                self._lock.release()
        if self._fetched_at + KEYS_S + STALE_S <= now:
            raise overloaded("the server cannot fetch the public keys of the token's issuer")
        return self._keys.get((algorithm, key_id))

    def _fetch(self, now: float) -> None:
        try:
            uri = self._uri or self._discovered()
            found = self._json(uri)["keys"]
            self._keys = {name: key for each in found for name, key in _usable(each).items()}
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


def verified(text: str, source: KeySource) -> Mapping[str, Any] | None:
    """Return the claims of a token, or None if its signature or its format is invalid."""
    try:
        header = jws.extract_compact(text.encode("ascii")).protected
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS or not isinstance(key_id, str):
            return None
        key = source.find(str(algorithm), key_id)
        if key is None:
            return None
        claims = json.loads(jws.deserialize_compact(text, key, [str(algorithm)]).payload)
    except (JoseError, ValueError):
        return None
    return claims if isinstance(claims, dict) else None


def _usable(given: Any) -> dict[tuple[str, str], RSAKey | ECKey]:
    """Return `{(algorithm, id): key}` for a JSON Web Key, or an empty dict if the server does not support the key."""
    if not isinstance(given, dict) or given.get("use", "sig") != "sig" or not isinstance(given.get("kid"), str):
        return {}
    public = {name: given[name] for name in ("kty", "kid", "n", "e", "crv", "x", "y") if name in given}
    try:
        if given.get("kty") == "RSA" and given.get("alg", "RS256") == "RS256":
            rsa = RSAKey.import_key(public)
            return {("RS256", given["kid"]): rsa} if rsa.public_key.key_size >= MIN_RSA_BITS else {}
        if given.get("kty") == "EC" and given.get("crv") == "P-256" and given.get("alg", "ES256") == "ES256":
            return {("ES256", given["kid"]): ECKey.import_key(public)}
    except (JoseError, ValueError, KeyError, TypeError):
        pass
    return {}


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in LOCAL
