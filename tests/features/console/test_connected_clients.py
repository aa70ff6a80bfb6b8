"""Clients that sign in at `/mcp`: the OAuth client of the MCP SDK, and what a client may not do."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

import retentive
from support.clock import Clock
from support.command_line import here
from support.console import Person, query_of
from support.http_api import Answer, Api
from support.listener import Received, listening
from support.mcp_clients import MODES, reply_of
from support.served_process import started
from support.tls import self_signed
from support.waiting import until

CALLBACK = "http://127.0.0.1:7777/callback"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
FORM = {"content_type": "application/x-www-form-urlencoded"}
A = "/memories/a.md"
HOUR_S, MONTH_S = 3_600, 30 * 86_400


Serve = Callable[..., AbstractContextManager[Api]]


@pytest.fixture
def api(alone: Api) -> Api:
    """A server with its console and the memory stores `team` and `own`, and the key of an admin."""
    for name in ("team", "own"):
        alone.place.opened.store(name)
    return alone


@dataclass
class Kept:
    """What a client of the SDK keeps between its starts."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    seen: list[str] = field(default_factory=list)

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def provider_of(api: Api, person: Person, kept: Kept, **options: Any) -> OAuthClientProvider:
    """The OAuth client of the SDK, whose person connects it in a browser."""

    async def show(url: str) -> None:
        kept.seen.append((await asyncio.to_thread(person.get, url)).text)
        kept.seen.append(await asyncio.to_thread(person.connect, url))

    async def called_back() -> AuthorizationCodeResult:
        query = query_of(kept.seen[-1])
        return AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query["iss"])

    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(CALLBACK)], client_name="The SDK")
    return OAuthClientProvider(f"{api.url}/mcp", metadata, kept, show, called_back, **options)


@asynccontextmanager
async def client_of(provider: OAuthClientProvider, url: str, mode: str = MODES[0]) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(auth=provider, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, Any]]]:
    """The URL of a client's metadata over TLS, and the document there."""
    cert = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", cert[0])
    found: dict[str, Any] = {}

    def answer(_: Received) -> tuple[int, bytes]:
        found["requests"] = found.get("requests", 0) + 1
        return found.get("status", 200), json.dumps(found["document"]).encode()

    with listening(answer, certificate=cert) as url:
        at = f"{url}/client.json"
        found["document"] = {"client_id": at, "client_name": "Document", "redirect_uris": [CALLBACK]}
        yield at, found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["document", "registered"])
def test_the_client_of_the_sdk_connects_lists_writes_and_refreshes(
    kind: str, mode: str, tmp_path: Path, served: Serve, documents: tuple[str, dict[str, Any]]
) -> None:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, served(opened, to_private=True) as api:
        opened.store("team")
        person = Person(api.with_key("read", "write", principal="user:ann"))
        kept = Kept()
        options = {"client_metadata_url": documents[0]} if kind == "document" else {}

        async def run() -> None:
            provider = provider_of(api, person, kept, **options)
            async with client_of(provider, f"{api.url}/mcp", mode) as client:
                assert "memory_create" in {tool.name for tool in (await client.list_tools()).tools}
                assert not (await reply_of(client, "memory_create", {"path": A, "file_text": "one\n"}))[1]
                first = kept.tokens
                provider.context.token_expiry_time = 1.0  # the client believes that its token has expired
                assert "one" in (await reply_of(client, "memory_view", {"path": A}))[0]
                assert first is not None
                assert kept.tokens is not None
                assert kept.tokens.access_token != first.access_token
                assert kept.tokens.refresh_token != first.refresh_token

        asyncio.run(run())
        (version,) = opened.store("team").versions()
        assert (str(version.actor), version.provenance.integration) == ("user:ann", "mcp")
        assert kept.client is not None
        is_document = kept.client.client_id == documents[0]
        assert is_document == (kind == "document")
        question = kept.seen[0]
        assert ("Only this host is verified" in question) == is_document
        assert ("Nothing about this client is verified" in question) != is_document
        assert "127.0.0.1:7777" in question


def test_a_client_reaches_two_stores_by_their_urls(api: Api) -> None:
    person, kept = Person(api.with_key("read", "write")), Kept()

    async def run() -> None:
        for store in ("team", "own"):
            async with client_of(provider_of(api, person, kept), f"{api.url}/mcp?store={store}") as client:
                assert not (await reply_of(client, "memory_create", {"path": A, "file_text": store}))[1]
        async with client_of(provider_of(api, person, kept), f"{api.url}/mcp") as client:
            with pytest.raises(MCPError, match="own, team"):
                await client.list_tools()

    asyncio.run(run())
    assert len(kept.seen) == 2, "the person was asked once"
    assert [api.place.opened.store(each).read(A) for each in ("team", "own")] == ["team", "own"]


@dataclass
class Flow:
    """A client that speaks HTTP by itself, and the person who connects it."""

    api: Api
    person: Person
    client_id: str = ""

    def register(self, **metadata: Any) -> Answer:
        return self.api.post("/oauth/register", {"redirect_uris": [CALLBACK], "client_name": "Raw", **metadata})

    def url(self, **changes: str | None) -> str:
        """The URL of the question. A parameter that is None is left out."""
        if not self.client_id:
            self.client_id = self.register().body["client_id"]
        query = {
            "response_type": "code", "client_id": self.client_id, "redirect_uri": CALLBACK, "state": "s t&te",
            "code_challenge": CHALLENGE, "code_challenge_method": "S256", "scope": "read write",
            "resource": f"{self.api.url}/mcp", **changes,
        }  # fmt: skip
        return "/console/authorize?" + urlencode({name: value for name, value in query.items() if value is not None})

    def code(self, **changes: Any) -> str:
        return query_of(self.person.connect(self.url(), **changes))["code"]

    def post(self, path: str, fields: dict[str, str]) -> Answer:
        return Api(self.api.url, "", self.api.place).send("POST", path, urlencode(fields).encode(), FORM)

    def redeem(self, code: str, /, **changes: str) -> Answer:
        fields = {"grant_type": "authorization_code", "code": code, "client_id": self.client_id}
        fields |= {"redirect_uri": CALLBACK, "code_verifier": VERIFIER, "resource": f"{self.api.url}/mcp"}
        return self.post("/oauth/token", fields | changes)

    def refresh(self, token: str, **changes: str) -> Answer:
        fields = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id}
        return self.post("/oauth/token", fields | changes)

    def tokens(self, **changes: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.redeem(self.code(**changes)).body
        return found

    def status(self, token: str, path: str = "/mcp?store=team") -> int:
        return Api(self.api.url, token, self.api.place).initialize(path).status


@pytest.fixture
def flow(api: Api) -> Flow:
    return Flow(api, Person(api.with_key("read", "write", principal="user:ann")))


def test_what_the_server_says_of_itself(api: Api) -> None:
    stranger = Api(api.url, "", api.place)
    challenge = stranger.post("/mcp", {}).headers["www-authenticate"]
    described = f"{api.url}/.well-known/oauth-protected-resource/mcp"
    assert challenge == f'Bearer resource_metadata="{described}", scope="read write"'
    wrong = Api(api.url, "rtva_0", api.place).post("/mcp", {})
    assert (wrong.status, wrong.headers["www-authenticate"]) == (401, f'{challenge}, error="invalid_token"')
    resource = stranger.get("/.well-known/oauth-protected-resource/mcp").body
    assert (resource["resource"], resource["authorization_servers"]) == (f"{api.url}/mcp", [api.url])
    server = stranger.get("/.well-known/oauth-authorization-server").body
    assert server["issuer"] == api.url
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["client_id_metadata_document_supported"] is True
    assert server["authorization_response_iss_parameter_supported"] is True
    assert {server[f"{name}_endpoint"].removeprefix(api.url) for name in ("token", "registration", "revocation")} == {
        "/oauth/token", "/oauth/register", "/oauth/revoke",
    }  # fmt: skip
    assert stranger.get("/v1/memory_stores").headers["www-authenticate"] == "Bearer"


def test_a_server_that_does_not_know_its_url_connects_no_clients(api: Api) -> None:
    stranger = Api(api.url, "", api.place, headers={"host": "memory.example.com"})
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"):
        assert stranger.get(path).status == 404
    assert stranger.post("/oauth/register", {}).status == 404
    assert stranger.post("/mcp", {}).headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "url",
    [
        "http://memory.example.com", "https://memory.example.com/", "https://a@memory.example.com", "memory", "https://[",
        "https://Memory.example.com", "https://memory.example.com:443",
    ],
)  # fmt: skip
def test_the_public_url_is_one_that_clients_can_use(url: str, tmp_path: Path) -> None:
    ended = here(f"sqlite:///{tmp_path}/memory.db", "serve", "--port", "0", "--public-url", url)
    assert ended.exit_code == 2
    assert "--public-url must be an https URL without a path, such as https://memory.example.com" in ended.output


def test_tokens_rotate_and_a_used_one_ends_the_access(flow: Flow) -> None:
    first = flow.tokens()
    assert (first["token_type"], first["expires_in"], first["scope"]) == ("Bearer", HOUR_S, "read write")
    assert flow.status(first["access_token"]) == 200
    second = flow.refresh(first["refresh_token"]).body
    assert flow.status(first["access_token"]) == 200, "requests under way keep their token"
    assert flow.status(second["access_token"]) == 200
    assert flow.refresh(first["refresh_token"]).body["error"] == "invalid_grant"
    assert [flow.status(each["access_token"]) for each in (first, second)] == [401, 401]
    assert flow.refresh(second["refresh_token"]).body["error"] == "invalid_grant"


def test_a_token_is_for_mcp_only_and_has_the_chosen_rights(flow: Flow, served: Serve) -> None:
    team = flow.api.place.opened.store("team")
    found = flow.tokens(scope=["read"], store=team.id)
    assert found["scope"] == "read"
    assert flow.status(found["access_token"], "/v1/memory_stores") == 401
    with served(flow.api.place.opened, public_url="https://other.example") as other:
        assert Flow(other, flow.person).status(found["access_token"]) == 401
    assert flow.status(found["access_token"], "/mcp?store=own") == 404
    assert flow.status(found["access_token"], "/mcp") == 200


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"code_verifier": "w" * 64}, 400, "invalid_grant"),
        ({"code_verifier": ""}, 400, "invalid_request"),
        ({"redirect_uri": "http://127.0.0.1:7778/callback"}, 400, "invalid_grant"),
        ({"client_id": "https://other.example/client.json"}, 400, "invalid_grant"),
        ({"client_id": "unknown"}, 401, "invalid_client"),
        ({"client_id": "rtvd_W10.00"}, 401, "invalid_client"),
        ({"client_id": ""}, 400, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, 400, "invalid_target"),
        ({"code": "rtvc_0000000000000000_00"}, 400, "invalid_grant"),
        ({"code": "\N{SNOWMAN}"}, 400, "invalid_grant"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"grant_type": ""}, 400, "invalid_request"),
    ],
)
def test_a_request_for_tokens_is_refused(flow: Flow, changes: dict[str, str], status: int, error: str) -> None:
    code = flow.code()
    refused = flow.redeem(code, **changes)
    assert (refused.status, refused.body["error"], refused.headers["cache-control"]) == (status, error, "no-store")
    assert flow.redeem(code).status == 200, "the code is still good for its client"


def test_malformed_requests_for_tokens_are_refused(flow: Flow) -> None:
    twice = Api(flow.api.url, "", flow.api.place).send("POST", "/oauth/token", b"code=1&code=2", FORM)
    assert (twice.status, twice.body["error"]) == (400, "invalid_request")
    assert flow.api.get("/oauth/token").status == 405
    assert flow.post("/oauth/token", {"code": "x" * (65 << 10)}).status == 413


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"scope": "admin"}, "invalid_scope"),
    ],
)
def test_a_wrong_question_goes_back_to_the_client(flow: Flow, changes: dict[str, str | None], error: str) -> None:
    flow.person.http.follow_redirects = False
    answer = flow.person.get(flow.url(**changes))
    query = query_of(answer.headers["location"])
    assert answer.headers["location"].startswith(f"{CALLBACK}?")
    assert (query["error"], query["state"], query["iss"]) == (error, "s t&te", flow.api.url)


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "unknown"}, {"client_id": None}, {"client_id": "https://127.0.0.1:1/client.json"},
        {"client_id": "rtvd_WyJ4IiwiaHR0cHM6Ly94Il0.0"}, {"redirect_uri": "https://other.example/callback"},
        {"redirect_uri": "http://127.0.0.1:7777/other"}, {"redirect_uri": "http://127.0.0.1:7777@other.example/"},
        {"redirect_uri": "javascript:alert(1)"},
    ],
)  # fmt: skip
def test_an_unknown_client_or_address_gets_no_answer(flow: Flow, changes: dict[str, str | None]) -> None:
    page = flow.person.get(flow.url(**changes))
    assert (page.status, page.problems()) == (400, [])
    assert "invalid_" in page.text
    assert page.url.startswith(flow.api.url)


def test_programs_on_this_machine_choose_a_free_port(flow: Flow) -> None:
    other = CALLBACK.replace("7777", "50123")
    to = flow.person.connect(flow.url(redirect_uri=other))
    assert to.startswith(f"{other}?")
    assert flow.redeem(query_of(to)["code"], redirect_uri=other).status == 200


def test_a_person_can_refuse(flow: Flow) -> None:
    query = query_of(flow.person.connect(flow.url(), answer="refuse"))
    assert (query["error"], query["state"], query["iss"]) == ("access_denied", "s t&te", flow.api.url)
    assert query_of(flow.person.connect(flow.url(), scope=[]))["error"] == "access_denied"


def test_the_question_cannot_be_framed_forged_or_skipped(flow: Flow) -> None:
    stranger = Person(flow.api, signs_in=False)
    asked = stranger.get(flow.url())
    assert "/console/login?next=" in asked.url
    after = stranger.post("/console/login", {**asked.form("login"), "key": flow.person.key})
    assert "Connect Raw ?" in after.text, "a sign-in in between loses nothing"
    assert after.problems() == []
    assert "frame-ancestors 'none'" in after.headers["content-security-policy"]
    assert "form-action 'self' https: http:;" in after.headers["content-security-policy"]
    assert after.headers["x-frame-options"] == "DENY"
    url = next(to for _, to, _ in after.forms if "authorize" in to)
    assert stranger.post(url, {"answer": "connect", "scope": "read"}).status == 403
    assert stranger.post(url, after.form("authorize"), origin="https://evil.example").status == 403


def test_a_hostile_name_is_shown_as_it_is(flow: Flow) -> None:
    flow.client_id = flow.register(client_name="<b>claude.ai</b>\u202e\0").body["client_id"]
    page = flow.person.get(flow.url())
    assert page.problems() == []
    assert "Connect <b>claude.ai</b>⟦U+202E⟧⟦U+0000⟧ ?" in page.text
    assert flow.redeem(flow.code()).status == 200


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://other.example/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a.example/#x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a.example;script-src"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a@b.example/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://["]}, "invalid_redirect_uri"),
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"client_name": 3}, "invalid_client_metadata"),
        ({"redirect_uris": [f"https://a.example/{'x' * 5_000}"]}, "invalid_client_metadata"),
    ],
)
def test_a_registration_is_refused(flow: Flow, metadata: dict[str, Any], error: str) -> None:
    answer = flow.register(**metadata)
    assert (answer.status, answer.body["error"]) == (400, error)


def test_a_registered_client_is_public_whatever_it_asks_for(flow: Flow) -> None:
    found = flow.register(token_endpoint_auth_method="client_secret_post", logo_uri="x", client_name=None)
    assert (found.status, found.body["token_endpoint_auth_method"]) == (201, "none")
    assert "client_secret" not in found.body


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "https://other.example/client.json"}, {"client_name": ""}, {"redirect_uris": ["http://x.example"]},
        {"token_endpoint_auth_method": "client_secret_basic"}, {"token_endpoint_auth_method": "private_key_jwt"},
        {"client_name": "x" * (17 << 10)},
    ],
)  # fmt: skip
def test_a_wrong_document_is_refused(
    flow: Flow, served: Serve, documents: tuple[str, dict[str, Any]], changes: dict[str, Any]
) -> None:
    with served(flow.api.place.opened, to_private=True) as api:
        url, found = documents
        person = Person(api, flow.person.key)
        asked = Flow(api, person, url)
        found["document"] |= changes
        assert person.get(asked.url()).status == 400
        found["document"] = {"client_id": url, "client_name": "Document", "redirect_uris": [CALLBACK]}
        methods = {"token_endpoint_auth_methods_supported": ["none", "private_key_jwt"]}  # as that of ChatGPT
        found["document"] |= {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": f"{url}/keys", **methods}
        assert "Connect Document ?" in person.get(asked.url()).text
        found["status"] = 500
        assert person.get(asked.url()).status == 400


def test_no_document_is_fetched_from_a_private_address(flow: Flow, documents: tuple[str, dict[str, Any]]) -> None:
    flow.client_id, found = documents
    assert "cannot be fetched" in flow.person.get(flow.url()).text
    assert "requests" not in found


def test_a_document_that_comes_too_slowly_is_given_up(
    flow: Flow, served: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Already in the TLS handshake, of which here one byte follows another without an end."""
    monkeypatch.setattr("retentive.server.outgoing.TOTAL_S", 0.5)

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"\x16\x03\x03\x40\x00")
            while True:
                connection.sendall(b"\x02")
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listener, served(flow.api.place.opened, to_private=True) as api:
        Thread(target=drip, args=[listener], daemon=True).start()
        person = Person(api, flow.person.key)
        asked = Flow(api, person, f"https://127.0.0.1:{listener.getsockname()[1]}/client.json")
        assert "cannot be fetched" in person.get(asked.url()).text


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_a_client_gives_its_access_back(flow: Flow, kind: str) -> None:
    found = flow.tokens()
    fields = {"token": found[kind], "client_id": flow.client_id}
    foreign = {**fields, "client_id": flow.register(client_name="Other").body["client_id"]}
    assert flow.post("/oauth/revoke", foreign).body["error"] == "unauthorized_client"
    assert flow.post("/oauth/revoke", {**fields, "client_id": "x"}).status == 401
    assert flow.post("/oauth/revoke", {**fields, "token": f"{found[kind]}0"}).status == 200
    assert flow.status(found["access_token"]) == 200
    assert flow.post("/oauth/revoke", fields).status == 200
    assert flow.status(found["access_token"]) == 401
    assert flow.refresh(found["refresh_token"]).body["error"] == "invalid_grant"


def test_a_refreshed_token_has_no_more_scopes(flow: Flow) -> None:
    found = flow.tokens(scope=["read"])
    assert flow.refresh(found["refresh_token"], scope="read write").body["scope"] == "read"


def test_a_revoked_key_takes_its_clients_along(api: Api) -> None:
    made = api.place.keys.create("ann", scopes=("read", "write"))
    flow = Flow(api, Person(api, made.text))
    code, found = flow.code(), flow.tokens()
    api.place.keys.change(made.record.id, status="archived")
    assert flow.status(found["access_token"]) == 401
    assert flow.refresh(found["refresh_token"]).body["error"] == "invalid_grant"
    assert flow.redeem(code).body["error"] == "invalid_grant"


def test_a_client_has_the_limits_and_groups_of_the_person(api: Api) -> None:
    grant = {"role": "read", "stores": ["own"]}
    group = api.post("/v1/organizations/groups", {"name": "readers", "members": ["user:ann"], "grants": [grant]}).body
    limits = {"stores": ("team",), "paths": ("/memories/a/**",), "principal": "user:ann"}
    flow = Flow(api, Person(api.with_key("read", "write", **limits)))
    token = flow.tokens()["access_token"]
    assert api.server is not None
    assert api.server.authorization is not None
    rights = partial(api.server.authorization.authenticated, token, api.url)
    found = rights()
    assert found is not None
    held = [(each.stores, each.scopes, each.paths) for each in found.held]
    assert held == [(("team",), ("read", "write"), ("/memories/a/**",)), (("own",), ("read",), ())]
    assert [flow.status(token, f"/mcp?store={name}") for name in ("team", "own")] == [200, 200]
    assert Api(api.url, token, api.place, headers={"retentive-actor": "user:eve"}).post("/mcp", {}).status == 403
    api.delete(f"/v1/organizations/groups/{group['id']}")
    until(lambda: flow.status(token, "/mcp?store=own") == 404)
    assert flow.status(token) == 200


def test_people_see_and_end_their_own_clients(flow: Flow) -> None:
    found, other = flow.tokens(), Person(flow.api.with_key("read", principal="user:bob"))
    assert "Raw" in flow.person.get("/console/clients").text
    assert "No client is connected" in other.get("/console/clients").text
    form = flow.person.get("/console/clients").form("disconnect")
    other.post("/console/clients/disconnect", {**other.get("/console/clients").form("logout"), "id": form["id"]})
    assert flow.status(found["access_token"]) == 200
    admin = Person(flow.api)
    page = admin.submit("/console/clients", "disconnect")
    assert ("No client is connected" in page.text, page.problems()) == (True, [])
    assert flow.status(found["access_token"]) == 401


@pytest.mark.long
def test_a_flow_goes_on_in_other_processes_and_after_a_restart(flow: Flow, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    at = f"sqlite:///{tmp_path}/memory.db"
    serve = partial(started, "--workers", "2", "--port", port, directory=tmp_path, RETENTIVE_AT=at)
    there = Api(f"http://127.0.0.1:{port}", flow.api.key, flow.api.place)
    with serve():
        other = Flow(there, Person(there, flow.person.key))
        code, found = other.code(), other.tokens()
        assert {other.status(found["access_token"]) for _ in range(6)} == {200}
        for send, given in ((other.redeem, other.code()), (other.refresh, other.tokens()["refresh_token"])):
            with ThreadPoolExecutor(6) as pool:
                answers = list(pool.map(send, [given] * 6))
            first = [each.body["access_token"] for each in answers if each.status == 200]
            assert [other.status(each) for each in first] == [401], "a replay ends the access that the first one got"
    with serve():
        assert other.status(found["access_token"]) == 200
        assert other.redeem(code).status == 200
        assert other.refresh(found["refresh_token"]).status == 200


def test_the_audit_log_says_what_people_decided(flow: Flow) -> None:
    found = flow.tokens()
    flow.refresh(flow.refresh(found["refresh_token"]).body["refresh_token"])
    flow.refresh(found["refresh_token"])
    flow.tokens()
    flow.person.submit("/console/clients", "disconnect")
    entries = [each for each in flow.api.place.opened.records.entries().items if each.facts.get("client")]
    assert {(each.actor, each.facts["client"]) for each in entries} == {("user:ann", flow.client_id)}
    assert [(each.operation, each.outcome) for each in reversed(entries)] == [
        ("connect", "ok"), ("disconnect", "reused_refresh_token"),
        ("connect", "ok"), ("disconnect", "ok"),
    ]  # fmt: skip
    admin = Person(flow.api)
    assert "connect" in admin.get("/console/sessions").text


def test_lifetimes_and_their_cleaning(flow: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, server, records = Clock(), flow.api.server, flow.api.place.opened.records
    clock.now = time.time() - 10 * MONTH_S
    assert server is not None
    monkeypatch.setattr(server.authorization, "_clock", clock)
    late = flow.code()
    clock.now += 61
    assert flow.redeem(late).body["error"] == "invalid_grant"
    found = flow.tokens()
    clock.now += HOUR_S + 1
    assert flow.status(found["access_token"]) == 401
    found = flow.refresh(found["refresh_token"]).body
    assert flow.status(found["access_token"]) == 200
    clock.now += MONTH_S + 1
    assert flow.refresh(found["refresh_token"]).body["error"] == "invalid_grant"
    clock.now = time.time()
    flow.tokens()
    assert len(records.list("connected_client")) == 3
    assert here(f"sqlite:///{tmp_path}/memory.db", "admin", "maintain").exit_code == 0
    assert len(records.list("connected_client")) == 1


def test_no_secret_is_stored(flow: Flow) -> None:
    found = flow.tokens()
    stored = " ".join(text for _, text in flow.api.place.opened.records.list("connected_client"))
    secrets = re.findall(r"[0-9a-f]{32,}", f"{found['access_token']} {found['refresh_token']}")
    assert len(secrets) == 4
    assert [each for each in secrets if each in stored] == []


def test_mcp_names_the_stores_that_the_key_sees(api: Api) -> None:
    for number in range(25):
        api.place.opened.store(f"s{number:02}")
    answer = api.post("/mcp", {})
    assert answer.status == 404
    message = answer.body["error"]["message"]
    assert message.startswith("the URL names no memory store; name one of these, such as /mcp?store=KEY: ")
    named = message.partition("KEY: ")[2].split(", ")
    assert (len(named), named[0], named[-1]) == (21, "s24", "...")
    few = api.with_key("read", stores=("t*", "own")).post("/mcp", {}).body["error"]["message"]
    assert few.endswith(": own, team")
    assert api.with_key("read", stores=("none*",)).post("/mcp", {}).body["error"]["message"].startswith("memory store")
    only = api.with_key("read", stores=("tea*",))
    assert Flow(only, Person(only, signs_in=False)).status(only.key, "/mcp") == 200
