"""OAuth 2.1 resource server. It accepts access tokens (JWT) of configured OpenID issuers, in addition to API keys.

Source: RFC 9068 (tokens), RFC 9728 (metadata).
"""

from __future__ import annotations

import json
import logging
import os
import time
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from ssl import create_default_context
from threading import Lock
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import httpx2
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import GuestProtocol, JWKRegistry, Key, RSAKey
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry
from pydantic import Field, model_validator

from retentive.errors import InvalidInput
from retentive.server.calls import Json
from retentive.server.errors import HttpError, overloaded
from retentive.server.keys import TOKEN_PREFIX, check_principal
from retentive.server.options import is_loopback
from retentive.server.people import ROLES
from retentive.server.requests import MCP
from retentive.server.rights import SCOPES, Grant, KeyRecord
from retentive.values.patterns import check_name_pattern, matches_actor
from retentive.values.text import digest
from retentive.wire.base import ActorPattern, Fields, NamePattern, rule
from retentive.wire.people import RoleGrant

LOG = logging.getLogger("retentive.server")
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


def check_issuer_url(url: str) -> None:
    """Raise `InvalidInput` if `url` is not an https URL. For a host on this machine, http is allowed too.

    Without TLS, an attacker on the network could replace a key and forge tokens.
    """
    parts = urlsplit(url)
    if not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))) or not parts.hostname:
        raise InvalidInput(f"{url[:200]!r} must be an https URL")


class IssuerRefusal(OSError):
    """Answer of an issuer with an error. `status` is the one of HTTP, and `code` the error of OAuth, or empty."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"the issuer answered {status} {code}")
        self.status, self.code = status, code


class IssuerClient:
    """Requests to one issuer, with its cached description and public keys. Threads may share it.

    There are no redirects, and answers are limited in time and size.
    """

    def __init__(self, issuer: Issuer, monotonic: Callable[[], float]) -> None:
        self.issuer, self._monotonic = issuer, monotonic
        self._http = httpx2.Client(
            timeout=TIMEOUT_S,
            verify=create_default_context(),
            limits=httpx2.Limits(max_keepalive_connections=0),  # requests are minutes apart
            trust_env=not is_loopback(urlsplit(issuer.issuer).hostname),  # else without a proxy
        )
        self._description: dict[str, Any] = {}
        self._keys: Mapping[str, Key] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._lock = Lock()

    def json(self, url: str, form: Mapping[str, str] | None = None, **options: Any) -> Any:
        """Return the JSON of an answer. With `form`, the request is a POST. `options` are those of httpx2.

        Raises `OSError` if there is none, `IssuerRefusal` if it is an error, `InvalidInput` or `ValueError` if it is
        malformed.
        """
        check_issuer_url(url)
        data = b""
        try:
            with self._http.stream("GET" if form is None else "POST", url, data=form, **options) as response:
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > MAX_BYTES:
                        raise InvalidInput("the response of the issuer is too long")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise OSError(str(error)) from None
        if response.status_code == HTTPStatus.OK:
            return json.loads(data)
        code = ""
        with suppress(ValueError, TypeError, KeyError, RecursionError, InvalidInput):
            code = _text(json.loads(data)["error"])[:100]
        raise IssuerRefusal(response.status_code, code)

    def verified(self, text: str) -> dict[str, Any]:
        """Return the claims of a JWT that the issuer signed. They may be outdated, or for somebody else.

        If its key is unknown, the keys are fetched again first. Raises `JoseError`, `ValueError`, `KeyError`, or
        `HttpError` 503 if the issuer cannot be reached and the cached keys are too old.
        """

        def find(token: GuestProtocol) -> Key:
            name = str(token.headers()["kid"])
            self._update(is_due=name not in self._keys)
            return self._keys[name]

        return jwt.decode(text, find, ALGORITHMS).claims

    def described(self) -> Mapping[str, Any]:
        """Return the description of the issuer. Raises `HttpError` 503 like `verified`."""
        self._update(is_due=not self._description)
        return self._description

    def unreachable(self, error: object) -> HttpError:
        """Log that the issuer did not answer, and return the error for the client."""
        name = self.issuer.name or self.issuer.issuer
        LOG.warning("the identity provider %s did not answer: %s", name, str(error)[:200])
        return overloaded(f"the identity provider {name} cannot be reached; try again later")

    def _update(self, *, is_due: bool) -> None:
        now, problem = self._monotonic(), "it was asked just now"
        is_due = is_due or self._fetched_at + KEYS_S <= now
        if is_due and self._lock.acquire(blocking=not self._keys):  # while one thread fetches, others use known keys
            try:
                if self._tried_at + REFETCH_S <= now:
                    self._tried_at = now
                    self._fetch()
                    self._fetched_at = now
            except (OSError, InvalidInput, ValueError, KeyError, TypeError, RecursionError) as error:
                problem = str(error)  # the cached keys stay in use for STALE_S
            finally:
                self._lock.release()
        if self._fetched_at + KEYS_S + STALE_S <= now:
            raise self.unreachable(problem)

    def _fetch(self) -> None:
        issuer, uri = self.issuer, self.issuer.jwks_uri
        if uri is None or issuer.client_id is not None:
            described = self.json(issuer.issuer.rstrip("/") + "/.well-known/openid-configuration")
            if described["issuer"] != issuer.issuer:
                raise InvalidInput("the metadata of the issuer names a different issuer")
            self._description = described
        given = self.json(uri or self._description["jwks_uri"])["keys"]
        self._keys = {each["kid"]: key for each in given if (key := _usable(each)) is not None}


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


LEEWAY_S = 30
MAX_TOKEN_CHARS = 16 << 10


class GroupRole(RoleGrant):
    """Role of the members of a group that tokens name. Without `stores`, it is of the whole workspace."""

    name: str = Field(min_length=1)
    stores: list[NamePattern] = Field(default_factory=list)

    @property
    def grant(self) -> Grant:
        """The role as rights of a caller."""
        return Grant(tuple(self.stores), ROLES[self.role], tuple(self.paths))


class Issuer(Fields):
    """Configured issuer of OAuth tokens, with the rules that derive the rights of a caller from the claims of a token.

    With `client_id`, people sign in to the console at the issuer (`openid.py`).

    The workspace is either `workspace` or the value of the claim whose name is `workspace_claim`. The value of the
    claim must match one of the patterns in `workspaces`. `groups` gives roles to groups that `groups_claim` names, in
    addition to the scopes of `scopes_claim`.
    """

    issuer: Annotated[str, rule(check_issuer_url)]
    audience: str = Field(min_length=1)
    workspace: str | None = None
    workspace_claim: str | None = None
    workspaces: list[NamePattern] = Field(default_factory=list)
    scopes_claim: str = "scope"
    scope_prefix: str = ""
    stores_claim: str | None = None
    actor_claim: str = "sub"
    actor_kind: str = "user"
    actor_prefix: str = ""
    act_as: list[ActorPattern] = Field(default_factory=list)
    jwks_uri: str | None = None
    groups_claim: str = "groups"
    groups: list[GroupRole] = Field(default_factory=list)
    name: str = Field(default="", pattern="^[a-z0-9-]{0,40}$")
    client_id: str | None = Field(default=None, min_length=1)
    client_secret_env: str | None = None
    sign_in_scopes: str = "openid profile email"
    sign_in_parameters: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.workspace is None) == (self.workspace_claim is None):
            raise InvalidInput("specify `workspace` or `workspace_claim`, but not both")
        if (self.workspace_claim is None) == bool(self.workspaces):
            raise InvalidInput(
                "`workspaces` and `workspace_claim` must be used together; to allow all workspaces, add the pattern *"
            )
        check_principal(f"{self.actor_kind}:{self.actor_prefix}x")
        if self.client_id is not None and not (self.name and self.client_secret):
            raise InvalidInput("`client_id` needs `name`, and in `client_secret_env` a variable that is set")
        if "openid" not in self.sign_in_scopes.split():
            raise InvalidInput("`sign_in_scopes` must contain openid")
        return self

    @property
    def client_secret(self) -> str:
        """Secret of the server at the provider, from its environment variable. Empty if it is missing."""
        return os.environ.get(self.client_secret_env or "", "")

    def record(self, claims: dict[str, Any], now: float) -> KeyRecord:
        """Return the rights of a token with the claims `claims`, in the form of an API key record.

        Raises `JoseError`, `InvalidInput`, `ValueError`, `KeyError` or `TypeError` if the token is not acceptable.
        """
        accepted: ClaimsOption = {"essential": True, "values": [self.audience, self.audience.rstrip("/") + MCP]}
        rules = JWTClaimsRegistry(int(now), LEEWAY_S, exp={"essential": True}, aud=accepted)
        rules.validate(claims)
        return self.rights(claims, now, claims["exp"] + LEEWAY_S)

    def rights(self, claims: dict[str, Any], now: float, until: float) -> KeyRecord:
        """Return the rights that the rules give to claims which are verified. `until` is when they expire.

        Raises like `record`.
        """
        subject = _text(claims[self.actor_claim])
        principal = f"{self.actor_kind}:{self.actor_prefix}{subject}"
        check_principal(principal)
        workspace = self.workspace
        if workspace is None:
            workspace = _text(claims[self.workspace_claim or ""])
            if not any(matches_actor(pattern, workspace) for pattern in self.workspaces):
                raise InvalidInput("the issuer is not allowed to give access to this workspace")
        stores = () if self.stores_claim is None else _words(claims[self.stores_claim])
        if self.stores_claim is not None and not stores:  # no patterns would mean all memory stores
            raise InvalidInput("the token names no stores")
        scopes = _words(claims.get(self.scopes_claim) or "")
        given = claim_in(claims, self.groups_claim)
        named = given if isinstance(given, list) else [given]
        claimed = tuple(each for each in named if isinstance(each, str))
        return KeyRecord(
            id=TOKEN_PREFIX + digest(f"{self.issuer}\n{subject}")[:24],
            name="OAuth token",
            digest="",
            partial_key_hint="",
            workspace_id=workspace,
            scopes=tuple(scope for scope in SCOPES if self.scope_prefix + scope in scopes),
            created_at=datetime.fromtimestamp(now, UTC).isoformat(),
            stores=tuple(map(check_name_pattern, stores)),
            act_as=tuple(self.act_as),
            principal=principal,
            expires_at=datetime.fromtimestamp(until, UTC).isoformat(),
            grants=tuple(each.grant for each in self.groups if each.name in claimed),
            claimed=claimed,
        )


class Tokens:
    """Verifies OAuth tokens. Threads may share it."""

    def __init__(
        self,
        resource: str,
        issuers: list[Issuer],
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = resource.rstrip("/")
        self.issuers = {each.issuer: IssuerClient(each, monotonic) for each in issuers}
        self._clock = clock

    @classmethod
    def from_file(cls, path: str) -> Tokens:
        """Return a verifier that is configured by a TOML file. Raises `InvalidInput`.

        The file contains `resource` and tables `[[issuers]]`.
        """
        try:
            with open(path, "rb") as file:
                given = tomllib.load(file)
            check_issuer_url(given["resource"])
            issuers = [Issuer.read(each) for each in given["issuers"]]
        except (OSError, ValueError, TypeError, AttributeError, KeyError, InvalidInput) as error:
            raise InvalidInput(f"{os.path.basename(path)} is not a valid OAuth configuration: {error}") from None
        names = [name for each in issuers for name in (each.issuer, each.name) if name]
        if len(given) > 2 or not issuers or len(set(names)) < len(names):
            raise InvalidInput(
                f"{os.path.basename(path)} must contain only `resource` and tables [[issuers]] with different issuers "
                "and names"
            )
        return cls(given["resource"], issuers)

    def metadata(self, path: str = "") -> Json:
        """Return the OAuth metadata of the whole server or, with `path`, of one path (RFC 9728, section 3.1)."""
        prefixes = {each.issuer.scope_prefix for each in self.issuers.values()}
        return {
            "resource": self.resource + path,
            "authorization_servers": list(self.issuers),
            "bearer_methods_supported": ["header"],
            "scopes_supported": [prefix + scope for prefix in sorted(prefixes) for scope in SCOPES],
        }

    def authenticated(self, text: str) -> KeyRecord | None:
        """Verify a token. Return its rights, or None if it is invalid.

        Raises `HttpError` 503 if the keys of the issuer cannot be fetched.
        """
        if len(text) > MAX_TOKEN_CHARS or not text.isascii():
            return None
        try:
            unverified = jws.extract_compact(text.encode("ascii"))
            client = self.issuers[json.loads(unverified.payload)["iss"]]
            return client.issuer.record(client.verified(text), self._clock())
        except (JoseError, InvalidInput, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None


def claim_in(claims: Mapping[str, Any], name: str) -> Any:
    """Return the claim `name`, or for a name such as `realm_access.roles` the one inside of another. Else None."""
    if name in claims:
        return claims[name]
    outer, _, inner = name.partition(".")
    found = claims.get(outer)
    return claim_in(found, inner) if inner and isinstance(found, dict) else None


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput("a claim must be a non-empty string")
    return value


def _words(value: Any) -> tuple[str, ...]:
    """Return the words of a claim, which is a text with spaces between them, or a list."""
    return tuple(value.split(" ")) if isinstance(value, str) else tuple(map(_text, value))
