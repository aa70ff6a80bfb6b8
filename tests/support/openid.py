"""Identity provider of OpenID Connect on the loopback interface: its description, keys and tokens, and its sign-in.

`authorize` stands for the pages at which a person signs in: it takes the URL that a server sends the browser to, and
returns the one that the browser goes back to. It checks requests as a strict provider does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from .listener import Answer, Received, listening

RESOURCE = "https://memory.example.com"
CLIENT, SECRET = "retentive", "s3cr3t:/ +"
Key = RSAKey | ECKey


class Provider:
    """An issuer at `url`. `users` has the claims of each person, and `changes` those of the next ID tokens."""

    url: str

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {
            "rsa": RSAKey.generate_key(2048, {"kid": "rsa"}),
            "ec": ECKey.generate_key("P-256", {"kid": "ec"}),
        }
        self.shown = dict(self.keys)
        self.described: dict[str, dict[str, Any]] = {}
        self.metadata: dict[str, Any] = {}
        self.requests: list[str] = []
        self.users: dict[str, dict[str, Any]] = {}
        self.changes: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.key = "rsa"
        self.in_userinfo: set[str] = set()
        self.gives_refresh = True
        self.is_down: Answer | None = None
        self.clock: Callable[[], float] = time.time
        self.codes: dict[str, dict[str, str]] = {}
        self.refreshes: dict[str, str] = {}
        self.accesses: dict[str, str] = {}

    def answer(self, request: Received) -> Answer:
        self.requests.append(request.path)
        if self.is_down is not None:
            return self.is_down
        shown = [
            key.as_dict(private=False) | {"use": "sig", **self.described.get(n, {})} for n, key in self.shown.items()
        ]
        found: object = {"keys": shown}
        match request.path:
            case "/.well-known/openid-configuration":
                names = {
                    "authorization": "authorize",
                    "token": "token",
                    "userinfo": "userinfo",
                    "end_session": "logout",
                }
                ends = {f"{name}_endpoint": f"{self.url}/{path}" for name, path in names.items()}
                found = {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **ends, **self.metadata}
            case "/token":
                return self.tokens(dict(parse_qsl(request.body.decode())), request.headers.get("authorization", ""))
            case "/userinfo":
                sub = self.accesses.get(request.headers.get("authorization", "").removeprefix("Bearer "), "")
                if sub not in self.users:
                    return 401, b'{"error": "invalid_token"}'
                found = {"sub": sub, **self.users[sub]}
        return 200, json.dumps(found).encode()

    def token(self, key: str = "rsa", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """An access token; a claim that is None is left out."""
        given = {
            "aud": RESOURCE,
            "sub": "ann",
            "workspace": "wrkspc_default",
            "scope": "memory:read memory:write openid",
        }
        return self.signed(key, header, **{**given, **claims})

    def signed(self, key: str, header: dict[str, Any] | None = None, **claims: Any) -> str:
        chosen = self.keys[key]
        algorithm = "RS256" if isinstance(chosen, RSAKey) else "ES256"
        given = {"iss": self.url, "exp": int(self.clock()) + 300, **claims}
        present = {name: value for name, value in given.items() if value is not None}
        whole = {"alg": algorithm, "kid": chosen.kid, **(header or {})}
        whole = {name: value for name, value in whole.items() if value is not None}
        text = jwt.encode({**whole, "alg": algorithm}, present, chosen)
        if whole["alg"] == algorithm:
            return text
        if whole["alg"] == "none":
            return f"{_encoded(json.dumps(whole).encode())}.{text.split('.')[1]}."
        return jwt.encode(whole, present, chosen, algorithms=[whole["alg"]])

    def authorize(self, url: str, sub: str) -> str:
        """The URL that the browser goes back to after a person has signed in."""
        assert url.partition("?")[0] == f"{self.url}/authorize"
        asked = dict(parse_qsl(urlsplit(url).query))
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        assert min(len(asked[name]) for name in ("state", "nonce", "code_challenge")) == 43
        code = secrets.token_urlsafe(16)
        self.codes[code] = {**asked, "sub": sub}
        answer = {"code": code, "state": asked["state"]}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def tokens(self, form: dict[str, str], authorization: str) -> Answer:
        name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        given = (unquote_plus(name), unquote_plus(secret)) if authorization else None
        if (given or (form.get("client_id"), form.get("client_secret"))) != (CLIENT, SECRET):
            return 401, b'{"error": "invalid_client"}'
        if form["grant_type"] == "refresh_token":
            sub, nonce = self.refreshes.pop(form["refresh_token"], ""), None  # each works once
        else:
            asked = self.codes.pop(form["code"], {})
            sub, nonce = asked.get("sub", ""), asked.get("nonce")
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            is_right = _encoded(digest) == asked.get("code_challenge")
            sub = sub if is_right and form["redirect_uri"] == asked["redirect_uri"] else ""
        if sub not in self.users:
            return 400, b'{"error": "invalid_grant"}'
        claims = {name: value for name, value in self.users[sub].items() if name not in self.in_userinfo}
        claims = {"sub": sub, "aud": CLIENT, "iat": int(self.clock()), "nonce": nonce, **claims, **self.changes}
        access, refresh = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.accesses[access] = sub
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": 300}
        answer["id_token"] = self.signed(self.key, self.header, **claims)
        if self.gives_refresh:
            self.refreshes[refresh] = sub
            answer["refresh_token"] = refresh
        return 200, json.dumps(answer).encode()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@contextmanager
def providing() -> Iterator[Provider]:
    found = Provider()
    with listening(found.answer) as found.url:
        yield found
