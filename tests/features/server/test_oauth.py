"""OAuth tokens of a running issuer: accepted tokens, their permissions, and refused tokens."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

import retentive
from retentive.errors import InvalidInput
from retentive.server.oauth import KEYS_S, REFETCH_S, Issuer, Tokens
from support import http_api
from support.clock import Clock
from support.http_api import Api, serving
from support.openid import Provider, providing

RESOURCE = "https://memory.example.com"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as found:
        yield found


def issuer(provider: Provider, **options: Any) -> Issuer:
    given = {"workspace_claim": "workspace", "workspaces": ["wrkspc_*"], "scope_prefix": "memory:"}
    return Issuer.read({"issuer": provider.url, "audience": RESOURCE, **given, **options})


@pytest.fixture(scope="module")
def lasting() -> Iterator[tuple[Api, Provider]]:
    """A server and its provider for tests whose tokens are all refused, so that they cannot affect each other."""
    with (
        providing() as provider,
        retentive.open("sqlite://") as opened,
        serving(opened, tokens=Tokens(RESOURCE, [issuer(provider, stores_claim="stores")])) as found,
    ):
        yield found, provider


@pytest.fixture
def api(provider: Provider, tmp_path: Path) -> Iterator[Api]:
    tokens = Tokens(RESOURCE, [issuer(provider, stores_claim="stores")])
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened, tokens=tokens) as found:
        yield found


def with_token(api: Api, text: str) -> Api:
    return Api(api.url, text, api.place)


def test_a_token_is_mapped_to_workspace_scopes_stores_and_actor(api: Api, provider: Provider) -> None:
    store, other = api.place.opened.store("team-a"), api.place.opened.store("private")
    ann = with_token(api, provider.token(stores=["team-*"]))
    created = ann.post(f"/v1/memory_stores/{store.id}/memories", {"path": "/a.md", "content": "one\n"})
    assert (created.status, created.headers["anthropic-workspace-id"]) == (200, "wrkspc_default")
    assert str(store.versions()[0].actor) == "user:ann"
    assert [each["id"] for each in ann.get("/v1/memory_stores").body["data"]] == [store.id]
    assert ann.get(f"/v1/memory_stores/{other.id}").status == 404
    assert ann.post(f"/v1/memory_stores/{store.id}/archive").status == 403
    elsewhere = with_token(api, provider.token("ec", stores="team-*", workspace="wrkspc_other"))
    assert elsewhere.get(f"/v1/memory_stores/{store.id}").status == 404
    assert with_token(api, provider.token(stores="team-*", scope=None)).get("/v1/memory_stores").status == 403


def parts(token: str) -> list[str]:
    return token.split(".")


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


PAST, FUTURE = 1_000_000_000, 4_000_000_000
CLAIMS: list[dict[str, Any]] = [
    {"exp": PAST}, {"exp": None}, {"exp": str(FUTURE)}, {"exp": True}, {"exp": 1e400}, {"nbf": FUTURE},
    {"iat": FUTURE}, {"nbf": "0"}, {"aud": "https://other.example.com"}, {"aud": []}, {"aud": None},
    {"iss": "https://login.example.com"}, {"iss": None}, {"sub": None}, {"sub": ""}, {"sub": 5}, {"sub": "a\nb"},
    {"workspace": None}, {"workspace": "secret"}, {"workspace": ["wrkspc_default"]}, {"stores": None}, {"stores": []},
    {"stores": ""}, {"stores": [5]}, {"scope": [5]}, {"sub": "svac_job_x" * 100},
]  # fmt: skip


@pytest.mark.parametrize("claims", CLAIMS, ids=str)
def test_tokens_with_wrong_claims_are_refused(lasting: tuple[Api, Provider], claims: dict[str, Any]) -> None:
    api, provider = lasting
    refused(with_token(api, provider.token(**{"stores": "*", **claims})).get("/v1/memory_stores"))


def refused(answer: http_api.Answer) -> None:
    metadata = f"{RESOURCE}/.well-known/oauth-protected-resource"
    assert (answer.status, answer.headers["www-authenticate"]) == (401, f'Bearer resource_metadata="{metadata}"')
    assert answer.error["message"] == "invalid API key"


def with_header(token: str, header: dict[str, Any]) -> str:
    return ".".join([encoded(header), *parts(token)[1:]])


def signed_with_public_key(provider: Provider, token: str) -> str:
    text = ".".join([encoded({"alg": "HS256", "kid": "rsa"}), parts(token)[1]])
    digest = hmac.digest(provider.keys["rsa"].as_pem(private=False), text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


FORGERIES: dict[str, Callable[[Provider, str], str]] = {
    "no signature": lambda _, token: ".".join([*parts(token)[:2], ""]),
    "none": lambda _, token: ".".join([encoded({"alg": "none", "kid": "rsa"}), parts(token)[1], ""]),
    "another payload": lambda _, token: ".".join(
        [parts(token)[0], encoded({**claims_of(token), "sub": "bob"}), parts(token)[2]]
    ),
    "a shared secret": signed_with_public_key,
    "the other algorithm": lambda _, token: with_header(token, {"alg": "ES256", "kid": "ec"}),
    "a stronger algorithm": lambda provider, token: jwt.encode(
        {"alg": "RS512", "kid": "rsa"}, claims_of(token), provider.keys["rsa"], algorithms=["RS512"]
    ),
    "no key id": lambda provider, token: jwt.encode({"alg": "RS256"}, claims_of(token), provider.keys["rsa"]),
    "a key of its own": lambda provider, _: forged(provider),
    "a key in the header": lambda provider, _: forged(provider, jwk=True),
    "a critical extension": lambda _, token: with_header(token, {"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}),
    "no JSON": lambda _, token: ".".join(["!!!", *parts(token)[1:]]),
    "empty parts": lambda _, __: "..",
    "deep nesting": lambda _, token: ".".join([parts(token)[0], encoded_text("[" * 5_000), parts(token)[2]]),
    "too long": lambda provider, _: provider.token(stores="*", padding="x" * 20_000),
}


def encoded_text(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def claims_of(token: str) -> dict[str, Any]:
    part = parts(token)[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def forged(provider: Provider, *, jwk: bool = False) -> str:
    own = RSAKey.generate_key(2048, {"kid": "rsa"})
    header = {"jwk": own.as_dict(private=False), "jku": "https://evil.example.com/keys"} if jwk else {}
    return jwt.encode({"alg": "RS256", "kid": "rsa", **header}, claims_of(provider.token(stores="*")), own)


@pytest.mark.parametrize("case", FORGERIES)
def test_forged_tokens_are_refused(lasting: tuple[Api, Provider], case: str) -> None:
    api, provider = lasting
    refused(with_token(api, FORGERIES[case](provider, provider.token(stores="*"))).get("/v1/memory_stores"))


def test_rotated_keys_are_fetched_with_a_limit(provider: Provider) -> None:
    clock = Clock()
    tokens = Tokens(RESOURCE, [issuer(provider)], monotonic=clock)
    assert tokens.authenticated(provider.token()) is not None
    provider.keys["new"] = provider.shown["new"] = ECKey.generate_key("P-256", {"kid": "new"})
    for _ in range(5):
        assert tokens.authenticated(provider.token("new")) is None
    assert len(provider.requests) == 2
    clock.now += REFETCH_S
    assert tokens.authenticated(provider.token("new")) is not None
    assert len(provider.requests) == 4


def test_a_withdrawn_key_is_refused(provider: Provider) -> None:
    clock = Clock()
    tokens = Tokens(RESOURCE, [issuer(provider)], monotonic=clock)
    text = provider.token()
    assert tokens.authenticated(text) is not None
    del provider.shown["rsa"]
    clock.now += KEYS_S
    assert tokens.authenticated(text) is None


def test_keys_of_an_issuer_that_is_away_serve_an_hour_more(provider: Provider) -> None:
    clock = Clock()
    tokens = Tokens(RESOURCE, [issuer(provider)], monotonic=clock)
    text = provider.token()
    assert tokens.authenticated(text) is not None
    provider.is_down = 500, b""
    clock.now += KEYS_S + 3_599
    assert tokens.authenticated(text) is not None
    clock.now += 1
    with pytest.raises(Exception, match="cannot be reached; try again later"):
        tokens.authenticated(text)


def test_metadata_that_names_another_issuer_are_not_used(provider: Provider) -> None:
    provider.metadata = {"issuer": "https://elsewhere.example"}
    with pytest.raises(Exception, match="cannot be reached; try again later"):
        Tokens(RESOURCE, [issuer(provider)]).authenticated(provider.token())


@pytest.mark.filterwarnings("ignore:.*2048")
def test_weak_keys_and_keys_for_other_uses_are_ignored(provider: Provider) -> None:
    weak = rsa.generate_private_key(65_537, 1_024).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    provider.keys["weak"] = RSAKey.import_key(weak, {"kid": "weak"})
    for name in ("encryption", "other", "nameless", "right"):
        provider.keys[name] = RSAKey.generate_key(2048, {"kid": name})
    provider.shown = dict(provider.keys)
    provider.described = {"encryption": {"use": "enc"}, "other": {"alg": "RSA-OAEP"}, "nameless": {"kid": 5}}
    tokens = Tokens(RESOURCE, [issuer(provider)])
    found = {name: tokens.authenticated(provider.token(name)) is not None for name in provider.keys}
    assert [name for name, is_valid in found.items() if is_valid] == ["rsa", "ec", "right"]


CONFIGURED = """
resource = "https://memory.example.com"
[[issuers]]
issuer = "https://login.example.com"
audience = "https://memory.example.com"
workspace = "wrkspc_default"
"""


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "issuers = []", CONFIGURED.replace("https://login", "http://login"),
        CONFIGURED.replace("workspace =", "workspace_claim ="), CONFIGURED.replace("workspace =", "workspaces ="),
        CONFIGURED + 'tenant = "x"', CONFIGURED + 'actor_kind = "session"', CONFIGURED + "act_as = [5]",
        CONFIGURED + CONFIGURED.partition("\n[[")[2].join(["[[", ""]), "x = 1\n" + CONFIGURED,
    ],
)  # fmt: skip
def test_wrong_configurations(tmp_path: Path, text: str) -> None:
    (tmp_path / "oauth.toml").write_text(text, "utf-8")
    with pytest.raises(InvalidInput, match=r"^oauth\.toml"):
        Tokens.from_file(f"{tmp_path}/oauth.toml")


def test_the_configurations_in_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text("utf-8")
    monkeypatch.setenv("KEYCLOAK_SECRET", "x")
    names = list[str]()
    for block in page.split("```toml\n")[1:]:
        (tmp_path / "oauth.toml").write_text(block.partition("```")[0], "utf-8")
        found = Tokens.from_file(f"{tmp_path}/oauth.toml")
        assert found.metadata()["resource"] == RESOURCE
        names += [each.issuer.name for each in found.issuers.values()]
    assert names == ["", "keycloak"]


def test_groups_in_a_token_give_rights_to_stores_and_paths(provider: Provider, tmp_path: Path) -> None:
    groups = [{"name": "support", "role": "read", "stores": ["team-*"], "paths": ["/memories/faq/**"]}]
    tokens = Tokens(RESOURCE, [issuer(provider, groups=groups)])
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened, tokens=tokens) as api:
        store, other = opened.store("team-a"), opened.store("private")
        for path in ("/memories/faq/a.md", "/memories/b.md"):
            store.create(path, "x\n")
        ann = with_token(api, provider.token(scope=None, groups=["support", "others"]))
        listed = ann.get(f"/v1/memory_stores/{store.id}/memories").body["data"]
        assert [each["path"] for each in listed if each["type"] == "memory"] == ["/faq/a.md"]
        assert ann.get(f"/v1/memory_stores/{other.id}").status == 404
        nobody = with_token(api, provider.token(scope=None, groups=["others"]))
        assert nobody.get(f"/v1/memory_stores/{store.id}").status in {403, 404}


@pytest.mark.parametrize("audience", [RESOURCE, f"{RESOURCE}/mcp", [f"{RESOURCE}/mcp"]], ids=str)
def test_an_mcp_client_finds_the_issuer_and_uses_its_token(api: Api, provider: Provider, audience: Any) -> None:
    """Clients ask for a token for the URL that they use. Its description has its own place (RFC 9728, section 3.1)."""
    refused = with_token(api, "").post("/mcp", {})
    assert refused.status == 401
    described = "/.well-known/oauth-protected-resource/mcp"
    assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{RESOURCE}{described}"'
    found = api.get(described).body
    assert found == {
        "resource": f"{RESOURCE}/mcp",
        "authorization_servers": [provider.url],
        "bearer_methods_supported": ["header"],
        "scopes_supported": [
            "memory:read",
            "memory:write",
            "memory:review",
            "memory:erase",
            "memory:gateway",
            "memory:admin",
        ],
    }
    assert api.get("/.well-known/oauth-protected-resource").body == {**found, "resource": RESOURCE}
    api.place.opened.store()
    allowed = with_token(api, provider.token(aud=audience, stores="*"))
    assert allowed.initialize("/mcp").status == 200
    assert with_token(api, provider.token(aud=f"{RESOURCE}/other", stores="*")).post("/mcp", {}).status == 401
