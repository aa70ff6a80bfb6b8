"""OpenID Connect: people sign in to the console at an identity provider, and are asked about there again.

Authorization code flow with PKCE (S256), state and nonce. Source: OpenID Connect Core 1.0, RP-Initiated Logout 1.0,
RFC 7636 (PKCE), RFC 9207 (issuer of the answer), RFC 9700 (security).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus, urlencode

from joserfc import jwe, jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from joserfc.jwt import JWTClaimsRegistry

from retentive.errors import Conflict, InvalidInput
from retentive.server.errors import HttpError, overloaded
from retentive.server.oauth import (
    ALGORITHMS,
    KEYS_S,
    LEEWAY_S,
    MAX_TOKEN_CHARS,
    REFETCH_S,
    Issuer,
    IssuerRefusal,
    KeySource,
    Tokens,
    check_issuer_url,
    claim_in,
)
from retentive.server.rights import KeyRecord
from retentive.server.sessions import PERSON, SignInRefused
from retentive.store.location_records import LocationRecords

__all__ = ["People", "Person", "Provider", "Tokens"]

LOG = logging.getLogger("retentive.server")
CHECK_S = 300.0
"""Seconds after which the provider is asked again whether a person may still be signed in, and for their groups."""
GRACE_S = 3_600.0
"""Seconds for which people stay signed in while the provider cannot be asked."""
KEPT_S = 30 * 86_400
_MALFORMED = (JoseError, InvalidInput, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_SEALING = ("dir", "A256GCM")
_SERVER_FAULTS = {"invalid_client", "unauthorized_client", "temporarily_unavailable", "server_error"}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who signed in: the claims that the rules need, and the tokens with which to ask the provider again."""

    claims: dict[str, Any]
    tokens: dict[str, str]


class Provider:
    """Identity provider at which people sign in. Threads may share it."""

    def __init__(self, issuer: Issuer, keys: KeySource, *clocks: Callable[[], float]) -> None:
        self.issuer, self.name = issuer, issuer.name
        self._keys, self._client = keys, keys.client
        self._clock, self._monotonic = clocks
        self._id, self._secret = issuer.client_id or "", issuer.client_secret
        self._sealing_key = OctKey.import_key(hashlib.sha256(b"retentive " + self._secret.encode()).digest())
        self._description: dict[str, Any] = {}
        self._until = float("-inf")

    def described(self) -> Mapping[str, Any]:
        """Return the description of the provider. It may be older if the provider is down. Raises `HttpError` 503."""
        now = self._monotonic()
        if self._until <= now:
            self._until = now + (REFETCH_S if self._description else 0)
            try:
                found = self._client.described()
                for name in ("authorization_endpoint", "token_endpoint"):
                    check_issuer_url(found[name])
                self._description, self._until = found, now + KEYS_S
            except (OSError, *_MALFORMED) as error:
                if not self._description:
                    raise self._unreachable(error) from None
        return self._description

    def authorization_url(self, secret: str, redirect_uri: str, *, asks_again: bool = False) -> str:
        """Return the URL at which a person signs in. `secret` is random, and only the person's browser keeps it.

        With `asks_again`, the provider asks for the password even if the person is signed in there, unless the
        configured parameters have another `prompt`: Google knows no `login`.
        """
        asked = {
            **({"prompt": "login"} if asks_again else {}), **self.issuer.sign_in_parameters,
            "response_type": "code", "client_id": self._id, "redirect_uri": redirect_uri,
            "scope": self.issuer.sign_in_scopes, "state": derived(secret, "state"), "nonce": derived(secret, "nonce"),
            "code_challenge": _encoded(hashlib.sha256(derived(secret, "verifier").encode()).digest()),
            "code_challenge_method": "S256",
        }  # fmt: skip
        return _with(self.described()["authorization_endpoint"], asked)

    def signed_in(self, answer: Mapping[str, str], secret: str, redirect_uri: str) -> Person:
        """Return the person whom the provider sent back with `answer`, the query of the redirect.

        Raises `SignInRefused`, or `HttpError` 503 if the provider cannot be reached.
        """
        described = self.described()
        if not hmac.compare_digest(answer.get("state", "").encode(), derived(secret, "state").encode()):
            raise SignInRefused("invalid_state")
        names_issuer = bool(described.get("authorization_response_iss_parameter_supported"))
        if answer.get("iss", None if names_issuer else self.issuer.issuer) != self.issuer.issuer:
            raise SignInRefused("wrong_issuer")  # an answer of another provider, mixed up by an attacker
        if "code" not in answer:
            raise SignInRefused("provider_refused")
        code = {"code": answer["code"], "code_verifier": derived(secret, "verifier"), "redirect_uri": redirect_uri}
        with self._asking("provider_refused"):
            tokens = self._asked_for_tokens("authorization_code", code)
            claims = self._verified(tokens["id_token"], nonce=derived(secret, "nonce"))
            return Person(self._completed(claims, tokens), tokens)

    def checked(self, person: Person) -> Person:
        """Ask the provider about a person again, and return them with their present groups.

        Raises `SignInRefused` if they may no longer be signed in, and `HttpError` 503 if the provider did not say.
        """
        tokens, claims = person.tokens, dict[str, Any]()
        with self._asking("revoked"):
            if "refresh_token" in tokens:
                fresh = self._asked_for_tokens("refresh_token", {"refresh_token": tokens["refresh_token"]})
                claims = self._verified(fresh["id_token"]) if "id_token" in fresh else {}
                tokens = {**tokens, **fresh}
            elif "access_token" not in tokens or "userinfo_endpoint" not in self.described():
                raise SignInRefused("cannot_be_checked")
            says_more = bool(claims) or "userinfo_endpoint" in self.described()
            claims = {"sub": person.claims["sub"], **claims}
            if claims["sub"] != person.claims["sub"]:
                raise SignInRefused("invalid_token")
            return Person(self._completed(claims, tokens) if says_more else person.claims, tokens)

    @contextmanager
    def _asking(self, refused: str) -> Iterator[None]:
        """Raise what a block that asks the provider may raise. `refused` is the outcome if the provider refuses."""
        try:
            yield
        except IssuerRefusal as refusal:
            raise (self._unreachable(refusal) if _is_fault(refusal) else SignInRefused(refused)) from None
        except OSError as error:
            raise self._unreachable(error) from None
        except _MALFORMED:
            raise SignInRefused("invalid_token") from None

    def logout_url(self, person: Person, back: str) -> str | None:
        """Return the URL at which a person signs out of the provider, and comes back. None if there is none."""
        with suppress(HttpError, *_MALFORMED):
            endpoint = self.described()["end_session_endpoint"]
            check_issuer_url(endpoint)
            query = {"id_token_hint": person.tokens["id_token"], "client_id": self._id}
            return _with(endpoint, {**query, "post_logout_redirect_uri": back})
        return None

    def written(self, person: Person, now: float) -> str:
        """Return the record of a person whom the provider confirmed now. The tokens are encrypted.

        The key comes from the secret of the server at the provider, which is not in the storage.
        """
        header, tokens = {"alg": _SEALING[0], "enc": _SEALING[1]}, json.dumps(person.tokens)
        sealed = jwe.encrypt_compact(header, tokens, self._sealing_key, algorithms=_SEALING)
        known = {"provider": self.name, "claims": person.claims, "tokens": sealed, "checked": now, "tried": now}
        return json.dumps(known)

    def person(self, known: Mapping[str, Any]) -> Person:
        """Return the person of a record. Without tokens, if the secret has changed since."""
        tokens: dict[str, str] = {}
        with suppress(JoseError, ValueError):
            found = jwe.decrypt_compact(known["tokens"], self._sealing_key, algorithms=_SEALING)
            tokens = json.loads(found.plaintext or b"{}")
        return Person(known["claims"], tokens)

    def _asked_for_tokens(self, grant: str, form: Mapping[str, str]) -> dict[str, str]:
        described = self.described()
        methods = described.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        sent, authorization = {"grant_type": grant, **form}, ""
        if "client_secret_basic" in methods:
            both = f"{quote_plus(self._id)}:{quote_plus(self._secret)}"
            authorization = "Basic " + base64.b64encode(both.encode()).decode()
        else:
            sent |= {"client_id": self._id, "client_secret": self._secret}
        answer = self._client.json(described["token_endpoint"], sent, authorization=authorization)
        names = ("id_token", "access_token", "refresh_token")
        return {name: answer[name] for name in names if isinstance(answer.get(name), str)}

    def _verified(self, text: str, nonce: str | None = None) -> dict[str, Any]:
        """Return the claims of an ID token. Raises one of `_MALFORMED` if it is not acceptable."""
        if len(text) > MAX_TOKEN_CHARS:
            raise InvalidInput("the ID token is too long")
        key = self._keys.find(jws.extract_compact(text.encode("ascii")).protected["kid"])
        claims = jwt.decode(text, key, ALGORITHMS).claims
        wanted = {"iss": self.issuer.issuer, "aud": self._id, **({} if nonce is None else {"nonce": nonce})}
        options: dict[str, Any] = {name: {"essential": True, "value": value} for name, value in wanted.items()}
        options |= {name: {"essential": True} for name in ("exp", "iat", "sub")}
        JWTClaimsRegistry(int(self._clock()), LEEWAY_S, **options).validate(claims)
        is_shared = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if is_shared else self._id) != self._id:
            raise InvalidInput("the ID token was made for another client")
        return claims

    def _completed(self, claims: dict[str, Any], tokens: Mapping[str, str]) -> dict[str, Any]:
        """Return the claims that the rules need. Those which are missing are asked for at the provider."""
        issuer, endpoint = self.issuer, self.described().get("userinfo_endpoint")
        names = {issuer.actor_claim, issuer.groups_claim, issuer.scopes_claim, "email_verified"}
        names |= {issuer.workspace_claim or "sub", issuer.stores_claim or "sub", "sub"}
        needed = names - ({"email_verified"} if issuer.actor_claim != "email" else set()) - {issuer.scopes_claim}
        is_missing = any(claim_in(claims, name) is None for name in needed)
        if is_missing and isinstance(endpoint, str) and "access_token" in tokens:
            more = self._client.json(endpoint, authorization=f"Bearer {tokens['access_token']}")
            if more["sub"] != claims["sub"]:
                raise InvalidInput("the provider answered about somebody else")
            claims = {**more, **claims}
        if issuer.actor_claim == "email" and claims.get("email_verified") is not True:
            raise SignInRefused("email_not_verified")  # anybody could claim the address
        return {name: value for name in names if (value := claim_in(claims, name)) is not None}

    def _unreachable(self, error: BaseException) -> HttpError:
        LOG.warning("the identity provider %s did not answer: %s", self.name, str(error)[:200])
        return overloaded(f"the identity provider {self.name} cannot be reached; try again later")


class People:
    """People who signed in at a provider. Threads and processes may share the records.

    All sign-ins of a person at the console share one record, which the id of their rights names.
    """

    def __init__(self, tokens: Tokens, records: LocationRecords, *, clock: Callable[[], float] = time.time) -> None:
        self.resource = tokens.resource
        self._records, self._clock = records, clock
        self.providers = {
            issuer.name: Provider(issuer, keys, clock, tokens.monotonic)
            for issuer, keys in tokens.issuers.values()
            if issuer.client_id is not None
        }

    def keep(self, provider: Provider, person: Person, key_id: str) -> None:
        """Store a person who has just signed in, and remove those whom nobody has asked about for `KEPT_S`."""
        now = self._clock()
        for name, text in self._records.list(PERSON):
            if now - json.loads(text)["checked"] > KEPT_S:
                self._records.put(PERSON, name, None)
        self._records.put(PERSON, key_id, provider.written(person, now))

    def rights(self, provider: Provider, claims: dict[str, Any], checked: float | None = None) -> KeyRecord:
        """Return the rights of a person with these claims, which the provider confirmed at the time `checked`.

        Raises `SignInRefused` if the rules of the issuer do not accept the claims.
        """
        at = self._clock() if checked is None else checked
        try:
            return replace(provider.issuer.rights(claims, at, at + CHECK_S + GRACE_S), name=provider.name)
        except _MALFORMED:
            raise SignInRefused("invalid_token") from None

    def record(self, key_id: str) -> KeyRecord | None:
        """Return the present rights of a person. None if they are no longer signed in at the provider.

        The provider is asked again every `CHECK_S`, by one process. If it cannot be asked, people stay signed in for
        `GRACE_S` more.
        """
        (text, known, provider), now = self._known(key_id), self._clock()
        if provider is None:
            return None
        if now - known["checked"] > CHECK_S and now - known["tried"] > REFETCH_S:
            known = self._checked(key_id, text, known, provider)
        if not known or now - known["checked"] > CHECK_S + GRACE_S:
            return None
        with suppress(SignInRefused):
            return self.rights(provider, known["claims"], known["checked"])
        return None

    def logout_url(self, key_id: str, back: str) -> str | None:
        """Return the URL at which a person signs out of the provider, and comes back. None if there is none."""
        _, known, provider = self._known(key_id)
        return None if provider is None else provider.logout_url(provider.person(known), back)

    def _known(self, key_id: str) -> tuple[str, dict[str, Any], Provider | None]:
        text = self._records.get(PERSON, key_id) or "{}"
        known: dict[str, Any] = json.loads(text)
        return text, known, self.providers.get(known.get("provider", ""))

    def _checked(self, key_id: str, text: str, known: dict[str, Any], provider: Provider) -> dict[str, Any]:
        """Return the record of a person after the provider was asked about them. Empty if they are no longer known."""
        known = {**known, "tried": self._clock()}
        trying = json.dumps(known)
        try:
            self._records.put(PERSON, key_id, trying, expected=text)
        except Conflict:  # another thread or process asks; a refresh token may work only once
            return known
        try:
            after = provider.written(provider.checked(provider.person(known)), self._clock())
        except SignInRefused as refusal:
            self._put(key_id, None, trying)
            facts = {"by": f"provider:{provider.name}", "reason": refusal.outcome, "key": key_id}
            with suppress(SignInRefused):
                record = self.rights(provider, known["claims"])
                facts |= {"workspace": record.workspace_id}
                self._records.log("sign_out", str(record.actor), integration="console", clock=self._clock, **facts)
            return {}
        except HttpError:
            return known
        self._put(key_id, after, trying)
        found: dict[str, Any] = json.loads(after)
        return found

    def _put(self, key_id: str, text: str | None, before: str) -> None:
        with suppress(Conflict):  # the person has just signed in again
            self._records.put(PERSON, key_id, text, expected=before)


def derived(secret: str, purpose: str) -> str:
    """Return a value that belongs to one sign-in: its state, nonce or PKCE verifier."""
    return _encoded(hmac.digest(secret.encode(), purpose.encode(), "sha256"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _with(url: str, query: Mapping[str, str]) -> str:
    return url + ("&" if "?" in url else "?") + urlencode(query)


def _is_fault(refusal: IssuerRefusal) -> bool:
    """Return whether a refusal is about the server or the provider, and not about the person.

    A proxy in front of a provider that restarts may answer 404 or 403; that must not throw everybody out.
    """
    if refusal.code:
        return refusal.code in _SERVER_FAULTS or refusal.status not in {400, 401, 403}
    return refusal.status != 401  # of `userinfo`, for a token that was revoked
