"""Sign-ins at an identity provider: groups become rights, forged answers are refused, and revoked people go."""

from __future__ import annotations

import hashlib
import re
import socket
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

import retentive
from retentive.console.web import console
from retentive.errors import InvalidInput
from retentive.server.oauth import Issuer, Tokens
from retentive.server.openid import CHECK_S, GRACE_S, People
from support.clock import Clock
from support.command_line import here
from support.console import Person, Seen
from support.http_api import Api, serving
from support.openid import CLIENT, SECRET, Provider, providing
from support.served_process import started

FORM = {"content_type": "application/x-www-form-urlencoded"}
GROUPS = [
    {"name": "writers", "role": "write", "stores": ["team-*"]},
    {"name": "admins", "role": "admin"},
]


@dataclass
class Site:
    """A server, its provider, and the clock of both."""

    api: Api
    provider: Provider
    people: People
    clock: Clock

    def person(self) -> Person:
        made = Person(self.api, signs_in=False)
        made.http.follow_redirects = False
        return made

    def leave(self, person: Person, wanted: str = "/console/") -> str:
        """Begin a sign-in. Return the URL of the provider that the browser is sent to."""
        answer = person.get(f"/console/login/test?{urlencode({'next': wanted})}")
        assert answer.status == 303
        return answer.headers["location"]

    def come_back(self, person: Person, url: str) -> Seen:
        return person.get(url.removeprefix(self.api.url))

    def returned(self, person: Person, sub: str = "ann", wanted: str = "/console/") -> Seen:
        """The answer when a person comes back from a sign-in at the provider."""
        return self.come_back(person, self.provider.authorize(self.leave(person, wanted), sub))

    def sign_in(self, sub: str = "ann", person: Person | None = None) -> Person:
        person = person or self.person()
        answer = self.returned(person, sub)
        assert (answer.status, answer.headers["location"]) == (303, "/console/"), answer.text
        return person

    def entries(self) -> list[tuple[Any, ...]]:
        found = [each for each in self.api.place.opened.records.audit.entries() if "sign" in str(each.operation)]
        return [(each.operation, each.actor, each.outcome, each.facts.get("by")) for each in found]

    def is_in(self, person: Person) -> bool:
        return person.get("/console/").status == 200


@contextmanager
def running(path: Path, **options: Any) -> Iterator[Site]:
    clock = Clock()
    clock.now = time.time()
    with providing() as provider, retentive.open(f"sqlite:///{path}/memory.db") as opened:
        provider.clock = clock
        given = {
            "issuer": provider.url, "audience": "x", "workspace": "wrkspc_default", "name": "test",
            "client_id": CLIENT, "client_secret_env": "TEST_SECRET", "groups": GROUPS,
        }  # fmt: skip
        tokens = Tokens("https://memory.example", [Issuer.read({**given, **options})], monotonic=clock)
        people = People(tokens, opened.records, clock=clock)
        with serving(opened, tokens=tokens, more=lambda server: console(server).routes(), has_console=True) as api:
            assert api.server is not None
            api.server.sessions.people = people
            people.resource = api.url
            yield Site(api, provider, people, clock)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("TEST_SECRET", SECRET)
    with running(tmp_path) as found:
        found.provider.users["ann"] = {"groups": ["writers", "others"]}
        found.provider.users["eve"] = {"groups": ["admins"]}
        yield found


def test_groups_of_the_provider_become_rights(site: Site) -> None:
    team, private = (site.api.place.opened.store(key) for key in ("team-a", "private"))
    ann, eve = site.sign_in("ann"), site.sign_in("eve")
    page = ann.get("/console/")
    assert ("team-a" in page.text, "private" in page.text) == (True, False)
    assert ann.get(f"/console/s/{private.id}/tree/").status == 404
    assert [ann.get(f"/console/{page}").status for page in ("keys", "s/team-a/audit")] == [403, 403]
    assert [eve.get(f"/console/{page}").status for page in ("keys", "s/private/audit")] == [200, 200]
    form = ann.get("/console/s/team-a/new").form("/new")
    assert ann.post("/console/s/team-a/new", {**form, "path": "/memories/a.md", "text": "one"}).status == 303
    assert [str(each.actor) for each in team.versions()] == ["user:ann"]
    assert site.entries() == [("sign_in", "user:ann", "ok", None), ("sign_in", "user:eve", "ok", None)]
    assert page.problems() == []


def test_no_token_of_the_provider_is_stored_readable(site: Site, tmp_path: Path) -> None:
    ann = site.sign_in()
    data = b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
    secrets = [*site.provider.refreshes, *site.provider.accesses, SECRET, ann.http.cookies["retentive"]]
    assert [each for each in secrets if each.encode() in data] == []
    assert b"eyJhbGciOiJSUzI1NiI" not in data  # an ID token


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example/", "/console/\\..\\x", "/v1/x", "x" * 9_000]
)
def test_a_sign_in_at_the_provider_leads_to_no_other_site(site: Site, wanted: str) -> None:
    ann = site.person()
    answer = site.returned(ann, "ann", wanted)
    assert (answer.status, answer.headers["location"]) == (303, "/console/")
    answer = site.returned(ann, "ann", "/console/keys?after=a%20b")
    assert answer.headers["location"] == "/console/keys?after=a%20b"


def forged(provider: Provider) -> None:
    provider.keys["rsa"] = type(provider.keys["rsa"]).generate_key(2048, {"kid": "rsa"})  # type: ignore[arg-type]


WRONG: dict[str, Callable[[Provider], object]] = {
    "another nonce": lambda found: found.changes.update(nonce="x" * 43),
    "no nonce": lambda found: found.changes.update(nonce=None),
    "another audience": lambda found: found.changes.update(aud="other"),
    "a second audience": lambda found: found.changes.update(aud=[CLIENT, "other"]),
    "made for another client": lambda found: found.changes.update(azp="other"),
    "another issuer": lambda found: found.changes.update(iss="https://login.example.com"),
    "expired": lambda found: found.changes.update(exp=1_000_000_000),
    "no expiry": lambda found: found.changes.update(exp=None),
    "nobody": lambda found: found.changes.update(sub=None),
    "no algorithm": lambda found: found.header.update(alg="none"),
    "a forged signature": forged,
    "the address of nobody": lambda found: found.changes.update(sub="a\nb"),
}
"""Claims that an ID token has beside those of access tokens, and one case of each check that both share."""


@pytest.mark.parametrize("case", WRONG)
def test_wrong_id_tokens_are_refused(site: Site, case: str) -> None:
    ann = site.person()
    url = site.leave(ann)
    back = site.provider.authorize(url, "ann")
    WRONG[case](site.provider)
    refused(site, ann, site.come_back(ann, back), "invalid_token")


def refused(
    site: Site, person: Person, answer: Seen, outcome: str, text: str = "The identity provider did not let you sign in."
) -> None:
    assert (answer.status, text in answer.text) == (403, True), answer.text
    assert "retentive" not in person.http.cookies
    assert not site.is_in(person)
    assert site.entries()[-1][:3:2] == ("sign_in", outcome)
    assert site.api.place.opened.records.list("person") == []


def changed(url: str, **query: str | None) -> str:
    given = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()} | query
    return f"{url.partition('?')[0]}?{urlencode({name: value for name, value in given.items() if value is not None})}"


def test_answers_that_do_not_belong_to_the_sign_in_are_refused(site: Site) -> None:
    ann, other, old = site.person(), site.person(), "The sign-in took too long, or began in another browser. Try again."
    back = site.provider.authorize(site.leave(ann), "ann")
    refused(
        site, other, site.come_back(other, back), "invalid_state", old
    )  # login CSRF: ann's answer in another browser
    site.leave(other)
    refused(site, other, site.come_back(other, back), "invalid_state", old)
    for state in ("", "x", None):
        refused(site, ann, site.come_back(ann, changed(back, state=state)), "invalid_state", old)
    theirs = parse_qs(urlsplit(site.provider.authorize(site.leave(other), "eve")).query)["code"][0]
    refused(site, ann, site.come_back(ann, changed(back, code=theirs)), "provider_refused")  # PKCE: an injected code
    denied = changed(back, code=None, error="access_denied")
    refused(site, ann, site.come_back(ann, denied), "provider_refused")
    assert "x" * 50 not in site.come_back(ann, changed(denied, error="x" * 50)).text


def test_an_answer_of_a_mixed_up_issuer_is_refused(site: Site) -> None:
    ann = site.person()
    back = site.provider.authorize(site.leave(ann), "ann")
    refused(site, ann, site.come_back(ann, changed(back, iss="https://evil.example")), "wrong_issuer")
    assert site.come_back(ann, changed(back, iss=site.provider.url)).status == 303


def test_people_without_rights_are_refused_and_told_so(site: Site) -> None:
    site.provider.users["ben"] = {"groups": ["others"]}
    ben = site.person()
    answer = site.returned(ben, "ben")
    refused(site, ben, answer, "no_access", "nobody has given you access here")
    assert site.entries()[-1][1] == "user:ben"


def test_an_address_must_be_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody could register the address of somebody else at some providers."""
    monkeypatch.setenv("TEST_SECRET", SECRET)
    with running(tmp_path, actor_claim="email") as site:
        site.provider.users = {
            "1": {"email": "ann@example.com", "email_verified": True, "groups": ["admins"]},
            "2": {"email": "ann@example.com", "email_verified": False, "groups": ["admins"]},
            "3": {"email": "ann@example.com", "groups": ["admins"]},
        }
        for sub in ("2", "3"):
            person = site.person()
            answer = site.returned(person, sub)
            refused(site, person, answer, "email_not_verified", "has not verified your e-mail address")
        site.sign_in("1")
        assert site.entries()[-1][1] == "user:ann@example.com"


@pytest.mark.parametrize("gives_refresh", [True, False])
@pytest.mark.parametrize("in_userinfo", [set[str](), {"groups"}])
def test_groups_are_taken_anew_and_a_revoked_person_is_out(
    site: Site, gives_refresh: bool, in_userinfo: set[str]
) -> None:
    site.provider.gives_refresh, site.provider.in_userinfo = gives_refresh, in_userinfo
    ann = site.sign_in()
    site.provider.users["ann"] = {"groups": ["admins"]}
    assert ann.get("/console/keys").status == 403
    site.clock.now += CHECK_S + 1
    assert ann.get("/console/keys").status == 200
    asked = len(site.provider.requests)
    assert ann.get("/console/keys").status == 200
    assert len(site.provider.requests) == asked  # once in CHECK_S
    del site.provider.users["ann"]
    assert site.is_in(ann)
    site.clock.now += CHECK_S + 1
    assert not site.is_in(ann)
    assert site.api.place.opened.records.list("person") == site.api.place.opened.records.list("console_session") == []
    assert site.entries()[-1] == ("sign_out", "user:ann", "ok", None)


def test_somebody_in_thousands_of_groups_stays_signed_in(site: Site) -> None:
    site.provider.users["ann"] = {"groups": ["writers", *(f"group-{number:020}" for number in range(2_500))]}
    ann = site.sign_in()
    site.clock.now += CHECK_S + 1
    assert site.is_in(ann)
    assert site.provider.requests.count("/token") == 2


def test_a_provider_that_is_down_ends_sign_ins_only_after_an_hour(site: Site) -> None:
    ann, ben = site.sign_in(), site.person()
    down = [(503, b"{}"), (404, b"<html>"), (403, b"<html>"), (400, b'{"error": "temporarily_unavailable"}')]
    for site.provider.is_down in down:
        site.clock.now += (CHECK_S + GRACE_S) / 4 - 1
        assert site.is_in(ann)
    site.clock.now += 60
    assert not site.is_in(ann)
    assert ben.get("/console/login/test").status == 303  # the description of the provider is known
    site.provider.is_down = None
    assert site.is_in(site.sign_in(person=ann))


def test_a_provider_that_was_never_reached_is_said_and_keys_go_on(site: Site) -> None:
    site.provider.is_down = 503, b""
    person = site.person()
    answer = person.get("/console/login/test")
    assert (answer.status, "test cannot be reached" in answer.text) == (503, True)
    assert person.get("/console/login/other").status == 404
    site.provider.is_down, site.provider.metadata["issuer"] = None, "https://evil.example"
    assert person.get("/console/login/test").status == 503
    person.key = site.api.key
    assert person.sign_in().status == 303


def test_a_refresh_token_is_used_once_by_requests_at_the_same_time(site: Site) -> None:
    ann = site.sign_in()
    token = ann.http.cookies["retentive"]
    site.clock.now += CHECK_S + 1
    assert site.api.server is not None
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(site.api.server.sessions.found, [token] * 8))
    assert None not in found
    assert site.provider.requests.count("/token") == 2


def test_a_new_sign_in_outlives_the_refusal_of_an_old_token(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, again, answered = site.sign_in(), site.person(), site.provider.tokens

    def tokens(form: dict[str, str], authorization: str) -> tuple[int, bytes]:
        if form["grant_type"] != "refresh_token":
            return answered(form, authorization)
        site.sign_in("ann", again)
        return 400, b'{"error": "invalid_grant"}'

    monkeypatch.setattr(site.provider, "tokens", tokens)
    site.clock.now += CHECK_S + 1
    assert [site.is_in(each) for each in (ann, again)] == [True, True]


def test_signing_out_ends_the_sign_in_at_the_provider_too(site: Site) -> None:
    ann = site.sign_in()
    answer = ann.post("/console/logout", ann.get("/console/").form("/logout"))
    seconds, _, url = answer.headers["refresh"].partition(";url=")
    asked = parse_qs(urlsplit(url).query)
    assert (answer.status, seconds, url.partition("?")[0]) == (200, "0", f"{site.provider.url}/logout")
    assert asked["post_logout_redirect_uri"] == [f"{site.api.url}/console/login"]
    assert (asked["client_id"], asked["id_token_hint"][0].count(".")) == ([CLIENT], 2)
    assert answer.problems() == []
    assert not site.is_in(ann)
    site.provider.metadata["end_session_endpoint"] = None
    site.clock.now += 601
    site.sign_in(person=ann)
    answer = ann.post("/console/logout", ann.get("/console/").form("/logout"))
    assert (answer.status, answer.headers["location"]) == (303, "/console/login")


def test_an_administrator_ends_all_sign_ins_of_a_person(site: Site) -> None:
    ann, eve = [site.sign_in("ann"), site.sign_in("ann")], site.sign_in("eve")
    fields = {**eve.get("/console/sessions").form("/end"), "actor": "user:ann"}
    assert eve.post("/console/sessions/end", fields).status == 303
    assert [site.is_in(each) for each in (*ann, eve)] == [False, False, True]


def test_a_client_that_a_person_connects_goes_with_the_person(site: Site) -> None:
    site.api.place.opened.store("team-a")
    ann = site.sign_in("ann")
    redirect, verifier = "http://127.0.0.1:7777/callback", "v" * 43
    client = site.api.post("/oauth/register", {"redirect_uris": [redirect]}).body["client_id"]
    asked = {
        "client_id": client, "response_type": "code", "code_challenge_method": "S256",
        "code_challenge": urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("="),
    }  # fmt: skip
    code = parse_qs(urlsplit(ann.connect(f"/console/authorize?{urlencode(asked)}")).query)["code"][0]
    form = {"grant_type": "authorization_code", "client_id": client, "code": code, "code_verifier": verifier}
    found = site.api.send("POST", "/oauth/token", urlencode(form).encode(), FORM).body
    connected = Api(site.api.url, found["access_token"], site.api.place)
    assert site.api.get("/.well-known/oauth-protected-resource/mcp").body["authorization_servers"] == [
        "https://memory.example", site.provider.url,
    ]  # fmt: skip
    assert connected.initialize("/mcp").status == 200
    site.provider.users["ann"] = {"groups": []}
    site.clock.now += CHECK_S + 1
    assert connected.initialize("/mcp").status == 403
    del site.provider.users["ann"]
    site.clock.now += CHECK_S + 1
    assert connected.initialize("/mcp").status == 401
    form = {"grant_type": "refresh_token", "client_id": client, "refresh_token": found["refresh_token"]}
    assert site.api.send("POST", "/oauth/token", urlencode(form).encode(), FORM).body["error"] == "invalid_grant"


def test_irreversible_changes_need_a_fresh_sign_in(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others type their key again; somebody without a key signs in again."""
    eve = site.sign_in("eve")
    form = eve.get("/console/keys").form("/keys/create")
    assert eve.post("/console/keys/create", {**form, "name": "x", "scope": "read"}).status == 200
    assert site.api.server is not None
    monkeypatch.setattr(site.api.server.sessions, "_clock", lambda: time.time() + 601)
    page = eve.get("/console/keys")
    answer = eve.post("/console/keys/create", {**page.form("/keys/create"), "name": "y", "scope": "read"})
    assert (answer.status, "fresh sign-in" in answer.text) == (403, True)
    again = next(each for each in page.links if "/console/login/test" in each)
    assert "next=%2Fconsole%2Fkeys" in again
    site.people.providers["test"].issuer.sign_in_parameters.update(prompt="login", state="x")
    asked = parse_qs(urlsplit(eve.get(again).headers["location"]).query)
    assert (asked["prompt"], len(asked["state"][0])) == (["login"], 64)


@pytest.mark.parametrize("kind", ["person", "console_session"])
@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_damaged_records_keep_nobody_else_out(site: Site, kind: str, text: str) -> None:
    ann, eve, records = site.sign_in("ann"), site.person(), site.api.place.opened.records
    ((name, _),) = records.list(kind)
    records.put(kind, name, text)
    assert not site.is_in(ann)
    assert site.is_in(site.sign_in("eve", eve))
    assert eve.get("/console/sessions").status == 200
    assert site.is_in(site.sign_in("ann", ann))


def test_a_new_sign_in_gets_a_new_session(site: Site) -> None:
    ann = site.sign_in()
    first = ann.http.cookies["retentive"]
    site.sign_in("eve", ann)
    assert ann.http.cookies["retentive"] != first
    assert len(site.api.place.opened.records.list("console_session")) == 1
    cookies = site.returned(ann).headers.get_list("set-cookie")
    assert all({"HttpOnly", "SameSite=lax", "Path=/"} <= set(each.split("; ")) for each in cookies)


def test_a_client_secret_may_be_sent_in_the_form_and_a_new_one_needs_new_sign_ins(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.provider.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    ann = site.sign_in()
    monkeypatch.setenv("TEST_SECRET", "rotated")
    before = site.people.providers["test"]
    site.people.providers["test"] = type(before)(before._client, site.clock)
    site.clock.now += CHECK_S + 1
    assert not site.is_in(ann)  # its tokens cannot be decrypted, so the provider cannot be asked
    answer = site.returned(ann)
    assert answer.status == 503


@pytest.mark.long
def test_a_server_of_two_processes_is_configured_by_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process knows the sign-ins of the other; groups of the location have people of the provider as members."""
    at = f"sqlite:///{tmp_path}/memory.db"
    monkeypatch.setenv("TEST_SECRET", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with providing() as provider:
        (tmp_path / "oauth.toml").write_text(
            f"""
            resource = "http://127.0.0.1:{port}"
            [[issuers]]
            name = "test"
            issuer = "{provider.url}"
            audience = "x"
            workspace = "wrkspc_default"
            client_id = "{CLIENT}"
            client_secret_env = "TEST_SECRET"
            """,
            "utf-8",
        )
        key = here(at, "keys", "new", "admin", "--scope", "admin").stdout.strip()
        options = ("--port", str(port), "--workers", "2", "--oauth", str(tmp_path / "oauth.toml"))
        with started("--at", at, *options, directory=tmp_path):
            api = Api(f"http://127.0.0.1:{port}", key, None)  # type: ignore[arg-type]  # not used here
            group = {"name": "x", "members": ["group:staff"], "grants": [{"role": "read"}]}
            assert api.post("/v1/organizations/groups", group).status == 200
            provider.users = {"ann": {"groups": ["staff"]}, "ben": {"groups": ["others"]}}
            for sub, status in (("ann", 303), ("ben", 403)):
                person = Person(api, signs_in=False)
                person.http.follow_redirects = False
                url = person.get("/console/login/test").headers["location"]
                back = provider.authorize(url, sub).removeprefix(api.url)
                assert person.get(back).status == status
                pages = {person.get("/console/").status for _ in range(12)}
                assert pages == {200 if status == 303 else 303}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"client_id": "x"}, "`client_id` needs `name`"),
        ({"client_id": "x", "name": "test", "client_secret_env": "NO_SECRET"}, "client_secret_env"),
        ({"sign_in_scopes": "email"}, "openid"), ({"name": "Test"}, "name"), ({"groups": [{"name": "x"}]}, "role"),
        ({"groups": [{"name": "x", "role": "admin", "paths": ["/memories/a/**"]}]}, "paths"),
        ({"groups": [{"name": "x", "role": "own"}]}, "role"),
    ],
)  # fmt: skip
def test_wrong_configurations_are_said(options: dict[str, Any], said: str) -> None:
    given = {"issuer": "https://login.example.com", "audience": "x", "workspace": "wrkspc_default"}
    with pytest.raises(InvalidInput, match=re.escape(said)):
        Issuer.read({**given, **options})


def test_a_claim_may_be_inside_of_another(site: Site) -> None:
    given = {"issuer": "https://login.example.com", "audience": "x", "workspace": "wrkspc_default", "groups": GROUPS}
    found = Issuer.read({**given, "groups_claim": "realm_access.roles"})
    for claims in ({"realm_access": {"roles": ["writers"]}}, {"realm_access.roles": "writers"}):
        record = found.rights({"sub": "ann", **claims}, 0.0, 1.0)
        assert [(each.stores, each.scopes) for each in record.grants] == [(("team-*",), ("read", "write"))]
    roles: list[Any] = [{"roles": [{"x": 1}]}, "writers", {"roles": "x writers"}, {"roles": None}, []]
    for odd in roles:
        assert found.rights({"sub": "ann", "realm_access": odd}, 0.0, 1.0).grants == ()
