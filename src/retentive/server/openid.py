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
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import quote_plus, urlencode

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwe import JWERegistry
from joserfc.jwk import OctKey
from joserfc.jwt import JWTClaimsRegistry

from retentive.errors import Conflict, InvalidInput
from retentive.server.errors import HttpError
from retentive.server.oauth import (
    LEEWAY_S,
    REFETCH_S,
    IssuerClient,
    IssuerRefusal,
    Tokens,
    check_issuer_url,
    claim_in,
)
from retentive.server.rights import KeyRecord
from retentive.server.sessions import PERSON, SignInRefused, fields_of
from retentive.store.location_records import LocationRecords

__all__ = ["People", "Provider", "Tokens"]

LOG = logging.getLogger("retentive.server")
CHECK_S = 300.0
"""Seconds after which the provider is asked again whether a person may still be signed in, and for their groups."""
GRACE_S = 3_600.0
"""Seconds for which people stay signed in while the provider cannot be asked."""
KEPT_S = 30 * 86_400
_MALFORMED = (JoseError, InvalidInput, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_SEALING = JWERegistry()
_SEALING.max_ciphertext_length = 1 << 20  # the tokens of somebody in thousands of groups are longer than its 64 KiB
_SERVER_FAULTS = {"invalid_client", "unauthorized_client", "temporarily_unavailable", "server_error"}

Person: TypeAlias = dict[str, Any]
"""Record of somebody who signed in: the `provider`, the `claims` that the rules need, the encrypted `tokens` with which
the provider is asked again, and the times when it `checked` the person and when it was `tried`."""


class Provider:
    """Identity provider at which people sign in. Threads may share it."""

    def __init__(self, client: IssuerClient, clock: Callable[[], float]) -> None:
        self._client, self._clock = client, clock
        self.issuer, self.name = client.issuer, client.issuer.name
        self._id, self._secret = self.issuer.client_id or "", self.issuer.client_secret
        self._sealing_key = OctKey.import_key(hashlib.sha256(b"retentive " + self._secret.encode()).digest())

    def authorization_url(self, secret: str, redirect_uri: str) -> str:
        """Return the URL at which a person signs in. `secret` is random, and only the person's browser keeps it.

        Raises like `signed_in`.
        """
        digest = hashlib.sha256(derived(secret, "verifier").encode())
        asked = {
            **self.issuer.sign_in_parameters,
            "response_type": "code", "client_id": self._id, "redirect_uri": redirect_uri,
            "scope": self.issuer.sign_in_scopes, "state": derived(secret, "state"), "nonce": derived(secret, "nonce"),
            "code_challenge": base64.urlsafe_b64encode(digest.digest()).decode().rstrip("="),
            "code_challenge_method": "S256",
        }  # fmt: skip
        with self._asking():
            return _with(self._client.described()["authorization_endpoint"], asked)

    def signed_in(self, answer: Mapping[str, str], secret: str, redirect_uri: str) -> Person:
        """Return the person whom the provider sent back with `answer`, the query of the redirect.

        Raises `SignInRefused`, or `HttpError` 503 if the provider cannot be reached.
        """
        if not hmac.compare_digest(answer.get("state", "").encode(), derived(secret, "state").encode()):
            raise SignInRefused("invalid_state")
        if answer.get("iss", self.issuer.issuer) != self.issuer.issuer:
            raise SignInRefused("wrong_issuer")  # an answer of another provider, mixed up by an attacker
        if "code" not in answer:
            raise SignInRefused("provider_refused")
        form = {"code": answer["code"], "code_verifier": derived(secret, "verifier"), "redirect_uri": redirect_uri}
        with self._asking():
            tokens = self._asked_for_tokens("authorization_code", form)
            claims = self._verified(tokens["id_token"], nonce=derived(secret, "nonce"))
            return self._person(self._completed(claims, tokens), tokens)

    def checked(self, person: Person) -> Person:
        """Ask the provider about a person again, and return them with their present groups.

        Raises `SignInRefused` if they may no longer be signed in, and `HttpError` 503 if the provider did not say.
        """
        tokens, fresh, known = self._tokens(person), dict[str, str](), person["claims"]
        with self._asking():
            has_userinfo = "userinfo_endpoint" in self._client.described()
            if "refresh_token" in tokens:
                fresh = self._asked_for_tokens("refresh_token", {"refresh_token": tokens["refresh_token"]})
            elif "access_token" not in tokens or not has_userinfo:
                raise SignInRefused("cannot_be_checked")
            tokens |= fresh
            claims = self._verified(fresh["id_token"]) if "id_token" in fresh else {"sub": known["sub"]}
            if claims["sub"] != known["sub"]:
                raise SignInRefused("invalid_token")
            says_more = "id_token" in fresh or has_userinfo
            return self._person(self._completed(claims, tokens) if says_more else known, tokens)

    def rights(self, person: Person) -> KeyRecord:
        """Return the rights of a person. Raises `SignInRefused` if the rules of the issuer do not accept the claims."""
        at = person["checked"]
        try:
            return replace(self.issuer.rights(person["claims"], at, at + CHECK_S + GRACE_S), name=self.name)
        except _MALFORMED:
            raise SignInRefused("invalid_token") from None

    def logout_url(self, person: Person, back: str) -> str | None:
        """Return the URL at which a person signs out of the provider, and comes back. None if there is none."""
        with suppress(HttpError, *_MALFORMED):
            query = {"id_token_hint": self._tokens(person)["id_token"], "client_id": self._id}
            return _with(self._client.described()["end_session_endpoint"], {**query, "post_logout_redirect_uri": back})
        return None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Raise what a block that asks the provider may raise.

        A proxy in front of a provider that restarts may answer 404 or 403; that must not throw everybody out.
        """
        try:
            yield
        except IssuerRefusal as refusal:
            is_about_person = refusal.code not in _SERVER_FAULTS if refusal.code else refusal.status == 401
            if is_about_person and refusal.status in {400, 401, 403}:
                raise SignInRefused("provider_refused") from None
            raise self._client.unreachable(refusal) from None
        except OSError as error:
            raise self._client.unreachable(error) from None
        except _MALFORMED:
            raise SignInRefused("invalid_token") from None

    def _person(self, claims: dict[str, Any], tokens: dict[str, str]) -> Person:
        """Return the record of a person whom the provider confirmed now.

        The key of the tokens comes from the secret of the server at the provider, which is not in the storage.
        """
        sealed = jwt.encode({"alg": "dir", "enc": "A256GCM"}, tokens, self._sealing_key, registry=_SEALING)
        now = self._clock()
        return {"provider": self.name, "claims": claims, "tokens": sealed, "checked": now, "tried": now}

    def _tokens(self, person: Person) -> dict[str, str]:
        """Return the tokens of a person. Empty if the secret has changed since."""
        with suppress(JoseError, ValueError):
            return jwt.decode(person["tokens"], self._sealing_key, registry=_SEALING).claims
        return {}

    def _asked_for_tokens(self, grant: str, form: Mapping[str, str]) -> dict[str, str]:
        described, basic = self._client.described(), "client_secret_basic"
        sent, auth = {"grant_type": grant, **form}, None
        if basic in described.get("token_endpoint_auth_methods_supported", [basic]):
            auth = quote_plus(self._id), quote_plus(self._secret)
        else:
            sent |= {"client_id": self._id, "client_secret": self._secret}
        answer = self._client.json(described["token_endpoint"], sent, auth=auth)
        names = ("id_token", "access_token", "refresh_token")
        return {name: answer[name] for name in names if isinstance(answer.get(name), str)}

    def _verified(self, text: str, nonce: str | None = None) -> dict[str, Any]:
        """Return the claims of an ID token. Raises one of `_MALFORMED` if it is not acceptable."""
        claims = self._client.verified(text)
        wanted = {"iss": self.issuer.issuer, "aud": self._id, **({} if nonce is None else {"nonce": nonce})}
        options: dict[str, Any] = {name: {"essential": True, "value": value} for name, value in wanted.items()}
        options |= {name: {"essential": True} for name in ("exp", "iat", "sub")}
        JWTClaimsRegistry(int(self._clock()), LEEWAY_S, azp={"value": self._id}, **options).validate(claims)
        if claims["aud"] not in (self._id, [self._id]) and "azp" not in claims:
            raise InvalidInput("the ID token was made for several clients")
        return claims

    def _completed(self, claims: dict[str, Any], tokens: Mapping[str, str]) -> dict[str, Any]:
        """Return the claims that the rules need. Those which are missing are asked for at the provider."""
        issuer, endpoint = self.issuer, self._client.described().get("userinfo_endpoint")
        names = {"sub", issuer.actor_claim, issuer.groups_claim}
        names |= {issuer.workspace_claim or "sub", issuer.stores_claim or "sub"}
        names |= {"email_verified"} if issuer.actor_claim == "email" else set()
        if any(claim_in(claims, name) is None for name in names) and endpoint and "access_token" in tokens:
            more = self._client.json(endpoint, headers={"Authorization": f"Bearer {tokens['access_token']}"})
            if more["sub"] != claims["sub"]:
                raise InvalidInput("the provider answered about somebody else")
            claims = {**more, **claims}
        if issuer.actor_claim == "email" and claims.get("email_verified") is not True:
            raise SignInRefused("email_not_verified")  # anybody could claim the address
        names.add(issuer.scopes_claim)
        return {name: value for name in names if (value := claim_in(claims, name)) is not None}


class People:
    """People who signed in at a provider. Threads and processes may share the records.

    All sign-ins of a person at the console share one record, which the id of their rights names.
    """

    def __init__(self, tokens: Tokens, records: LocationRecords, *, clock: Callable[[], float] = time.time) -> None:
        self.resource = tokens.resource
        self._records, self._clock = records, clock
        self.providers = {
            client.issuer.name: Provider(client, clock)
            for client in tokens.issuers.values()
            if client.issuer.client_id is not None
        }

    def keep(self, person: Person, key_id: str) -> None:
        """Store a person who has just signed in, and remove those whom nobody has asked about for `KEPT_S`."""
        for name, text in self._records.list(PERSON):
            if self._clock() - fields_of(text).get("checked", 0) > KEPT_S:
                self._records.put(PERSON, name, None)
        self._records.put(PERSON, key_id, json.dumps(person))

    def record(self, key_id: str) -> KeyRecord | None:
        """Return the present rights of a person. None if they are no longer signed in at the provider.

        The provider is asked again every `CHECK_S`, by one process. If it cannot be asked, people stay signed in for
        `GRACE_S` more.
        """
        text, person, provider = self._stored(key_id)
        if provider is None:
            return None
        now = self._clock()
        if now - person["checked"] > CHECK_S and now - person["tried"] > REFETCH_S:
            person = self._checked(key_id, text, person, provider)
        if not person or now - person["checked"] > CHECK_S + GRACE_S:
            return None
        with suppress(SignInRefused):
            return provider.rights(person)
        return None

    def logout_url(self, key_id: str, back: str) -> str | None:
        """Return the URL at which a person signs out of the provider, and comes back. None if there is none."""
        _, person, provider = self._stored(key_id)
        return None if provider is None else provider.logout_url(person, back)

    def _stored(self, key_id: str) -> tuple[str, Person, Provider | None]:
        text = self._records.get(PERSON, key_id) or ""
        person = fields_of(text)
        return text, person, self.providers.get(person.get("provider", ""))

    def _checked(self, key_id: str, text: str, person: Person, provider: Provider) -> Person:
        """Return the record of a person after the provider was asked. Empty if it refused."""
        person = {**person, "tried": self._clock(), "turn": os.urandom(8).hex()}  # else two of the same time both win
        trying = json.dumps(person)
        try:
            self._records.put(PERSON, key_id, trying, expected=text)
            after = provider.checked(person)
        except (Conflict, HttpError):  # another thread or process asks: a refresh token may work only once
            return person
        except SignInRefused as refusal:
            LOG.warning("%s is signed out: %s says %s", key_id, provider.name, refusal.outcome)
            after = {}
        try:
            self._records.put(PERSON, key_id, json.dumps(after) if after else None, expected=trying)
        except Conflict:  # the person has just signed in again
            return fields_of(self._records.get(PERSON, key_id))
        return after


def derived(secret: str, purpose: str) -> str:
    """Return a value that belongs to one sign-in: its state, nonce or PKCE verifier."""
    return hmac.digest(secret.encode(), purpose.encode(), "sha256").hex()


def _with(url: str, query: Mapping[str, str]) -> str:
    check_issuer_url(url)
    return url + ("&" if "?" in url else "?") + urlencode(query)
