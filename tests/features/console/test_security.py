"""Sign-in, and requests of other sites, other keys and other hosts."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import httpx2
import pytest

from retentive import MemoryStore
from retentive.console.pages import PAGES
from retentive.console.visits import PageRoute
from retentive.server.sessions import IDLE_S, LONGEST_S, OneTimeCode, Sessions
from support.console import Person, pages_of
from support.http_api import Api

SCOPES = ("read", "write", "review", "erase")
ENDINGS = {
    "path": "notes/a.md", "memory_id": "mem_0", "version_id": "memver_0", "pair": "a..b",
    "revision": "r1", "actor": "session:s1", "proposal_id": "prop_0", "group": "group_0",
}  # fmt: skip


@pytest.fixture
def reader(api: Api) -> Person:
    """A person whose key has the scope read."""
    return Person(api.with_key("read"))


def url_of(route: PageRoute, store_id: str) -> str:
    return "/console" + re.sub(
        r"\{(\w+)(?::path)?\}", lambda found: {"store": store_id, **ENDINGS}[found[1]], route.path
    )


def test_every_answer_has_the_headers(person: Person, at: str) -> None:
    for url in ("/console/", f"{at}/tree/", f"{at}/m/unknown", "/console/login"):
        headers = person.get(url).headers
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


def test_without_a_sign_in_every_page_leads_to_the_login(api: Api, store: MemoryStore) -> None:
    stranger = Person(api, signs_in=False)
    stranger.http.follow_redirects = False
    for route in PAGES:
        url = url_of(route, store.id)
        if route.is_poll:
            assert "You are signed out" in stranger.get(url).text
            continue
        answer = stranger.get(url) if route.method == "GET" else stranger.post(url, {})
        assert (answer.status, answer.headers["location"].partition("?")[0]) == (303, "/console/login"), url
        assert not answer.body


def test_the_address_of_the_server_leads_a_browser_to_the_console(api: Api) -> None:
    assert httpx2.get(f"{api.url}/", headers={"accept": "text/html,*/*"}).headers["location"] == "/console/"
    for method, accept in (("GET", "application/json"), ("POST", "text/html")):
        found = httpx2.request(method, f"{api.url}/", headers={"accept": accept})
        assert (found.status_code, found.json()["error"]["message"]) == (404, "route not found")


@pytest.mark.parametrize("key", ["", "rtv_x", "\u202e", "0" * 200])
def test_every_failed_sign_in_has_the_same_answer(api: Api, key: str) -> None:
    stranger = Person(api, signs_in=False)
    answer = stranger.sign_in(key)
    assert (answer.status, "This did not work. Check what you typed." in answer.text) == (403, True)
    assert set(stranger.http.cookies) == {"retentive_form"}


def test_failures_of_a_network_count_together_and_are_forgotten(alone: Api) -> None:
    now = [1_000.0]
    sessions = Sessions(alone.place.keys, alone.place.opened.records, clock=lambda: now[0])
    for number in range(10):
        assert sessions.authenticated("x", f"2001:db8::{number}") is None
    with pytest.raises(Exception, match="Too many failed"):
        sessions.authenticated("x", "2001:db8::ffff")
    assert sessions.authenticated("x", "2001:db8:0:1::1") is None
    assert sessions.authenticated(alone.key, "2001:db8::1") is not None
    now[0] += 61
    assert sessions.authenticated("x", "2001:db8::1") is None


def test_nobody_can_fill_the_audit_log(alone: Api) -> None:
    sessions = Sessions(alone.place.keys, alone.place.opened.records, clock=lambda: 1_000.0)
    for number in range(150):
        sessions.authenticated("x", f"192.0.2.{number}")
    found = [each for each in alone.place.opened.records.audit.entries() if each.operation == "sign_in"]
    assert len(found) == 100


def test_the_cookie_of_a_sign_in_is_new_and_closed_to_scripts(api: Api) -> None:
    """Session fixation: a token that was there before the sign-in is not used."""
    person = Person(api, signs_in=False)
    person.http.cookies.set("retentive", "chosen-by-an-attacker", domain="127.0.0.1")
    person.http.follow_redirects = False
    answer = person.sign_in()
    cookie = next(each for each in answer.headers.get_list("set-cookie") if each.startswith("retentive="))
    assert "chosen-by-an-attacker" not in cookie
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    token = cookie.partition("=")[2].partition(";")[0]
    stored = api.place.opened.records.list("console_session")
    assert stored
    assert token not in str(stored)


def test_over_tls_the_cookie_belongs_to_the_host(api: Api) -> None:
    person = Person(api, signs_in=False)
    page = person.get("/console/login", host="memory.example")
    assert page.headers["set-cookie"].startswith("__Host-retentive_form=")
    assert page.headers["set-cookie"].endswith("Secure")


def test_a_sign_in_ends_after_an_idle_hour_and_after_twelve(api: Api) -> None:
    now = [1_000.0]
    sessions = Sessions(api.place.keys, api.place.opened.records, clock=lambda: now[0])
    record = api.place.keys.create("x").record
    token = sessions.begin(record)
    for _ in range(12):
        now[0] += IDLE_S - 60
        assert sessions.found(token) is not None
    now[0] = 1_000.0 + LONGEST_S + 1
    assert sessions.found(token) is None
    token = sessions.begin(record)
    now[0] += IDLE_S + 1
    assert sessions.found(token) is None


def test_signing_out_ends_the_session(api: Api) -> None:
    person = Person(api)
    token = person.http.cookies["retentive"]
    fields = person.get("/console/").form("/logout")
    answer = person.post("/console/logout", fields)
    assert answer.url.endswith("/console/login")
    person.http.cookies.set("retentive", token, domain="127.0.0.1")
    assert person.get("/console/").url.endswith("/console/login")


def test_a_code_works_once_and_for_a_minute() -> None:
    code = OneTimeCode("user:ann", made=100.0)
    assert not code.accepts("WRONG", 101)
    assert code.accepts(f" {code.text[:4].lower()}-{code.text[4:]} ", 159)
    assert not code.accepts(code.text, 159)
    assert not OneTimeCode("user:ann", text="ABCDEFGH", made=100.0).accepts("ABCDEFGH", 161)
    guessed = OneTimeCode("user:ann", text="ABCDEFGH", made=100.0)
    for _ in range(5):
        guessed.accepts("AAAAAAAA", 101)
    assert not guessed.accepts("ABCDEFGH", 101)


POSTS = [route for route in PAGES if route.method == "POST"]


def test_a_post_needs_the_token_and_the_own_origin(person: Person, store: MemoryStore, api: Api) -> None:
    before = store.history.newest()
    token = person.get(f"/console/s/{store.id}/search").form("/search")["csrf"]
    other = Person(api)
    foreign = other.get("/console/keys").form("/keys/create")["csrf"]
    for url in (url_of(route, store.id) for route in POSTS):
        refused = [
            person.post(url, {"x": "1"}),
            person.post(url, {"csrf": ""}),
            person.post(url, {"csrf": token[:-1] + ("0" if token[-1] != "0" else "1")}),
            person.post(url, {"csrf": foreign}),
            person.post(url, {"csrf": token}, origin="https://evil.example", sec_fetch_site=""),
            person.post(url, {"csrf": token}, origin="null"),
            person.post(url, {"csrf": token}, sec_fetch_site="cross-site"),
            person.post(url, {"csrf": token}, sec_fetch_site="same-site"),
        ]
        assert [each.status for each in refused] == [403] * len(refused), url
    assert store.history.newest() == before


def test_a_get_changes_nothing(person: Person, store: MemoryStore) -> None:
    before = store.history.newest(), store.settings(), len(store.review.decisions())
    for route in PAGES:
        if route.method == "GET":
            person.get(url_of(route, store.id))
    assert (store.history.newest(), store.settings(), len(store.review.decisions())) == before


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/json", "text/plain"])
def test_a_body_must_be_a_form(person: Person, at: str, kind: str) -> None:
    answer = person.http.post(
        f"{at}/search", content=b"csrf=x", headers={"content-type": kind, "origin": person.api.url}
    )
    assert answer.status_code == 400


def test_forms_and_queries_have_a_largest_size(person: Person, at: str) -> None:
    fields = {f"f{number}": "x" for number in range(1_101)}
    assert person.post(f"{at}/search", {"csrf": "x", "q": "y" * (8 << 20)}).status == 413
    assert person.post(f"{at}/search", {"csrf": "x", **fields}).status == 400
    assert person.get(f"{at}/search?{urlencode(fields)}").status == 400


@pytest.mark.parametrize(
    "wanted",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "/console/\\..\\x", "javascript:alert(1)", "/v1/x",
     "/console//../../x\n", "https:/console/", "\t//evil.example", "/console@evil.example"],
)  # fmt: skip
def test_a_sign_in_leads_to_no_other_site(api: Api, wanted: str) -> None:
    person = Person(api, signs_in=False)
    person.http.follow_redirects = False
    fields = person.get("/console/login").form("/login")
    answer = person.post("/console/login", {**fields, "key": api.key, "next": wanted})
    assert (answer.status, answer.headers["location"]) == (303, "/console/")


def test_a_sign_in_leads_to_the_page_that_was_asked_for(api: Api, store: MemoryStore) -> None:
    person = Person(api, signs_in=False)
    page = person.get(f"/console/s/{store.id}/m/notes/a.md?view=raw")
    assert page.url.partition("?")[0].endswith("/login")
    again = person.post("/console/login", {**page.form("/login"), "key": "wrong"})
    answer = person.post("/console/login", {**again.form("/login"), "key": api.key})
    assert answer.url.endswith("/m/notes/a.md?view=raw")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "[::1", "localhost.evil", "memory.example.evil"]
)
def test_an_unknown_host_name_is_refused(person: Person, host: str, at: str) -> None:
    for url in ("/console/", f"{at}/m/b.txt", "/console/login"):
        answer = person.get(url, host=host)
        assert answer.status == 400
        assert "plain" not in answer.text
        assert "set-cookie" not in answer.headers


def test_a_store_of_another_key_does_not_exist(api: Api, store: MemoryStore) -> None:
    """The answer is that for an unknown store, also after the server has opened the store for another key."""
    other = Person(api.with_key("admin", stores=("memstore_other",)))
    token = other.get("/console/keys").form("/keys/create")["csrf"]
    for route in (each for each in PAGES if "{store}" in each.path):
        texts = []
        for store_id in (store.id, "memstore_" + "0" * 32):
            url = url_of(route, store_id)
            answer = other.get(url) if route.method == "GET" else other.post(url, {"csrf": token, "key": other.key})
            assert answer.status in {400, 404}, url
            texts.append(answer.text)
        assert texts[0] == texts[1], route


def test_a_page_needs_its_scope(reader: Person, store: MemoryStore) -> None:
    token = reader.get("/console/").form("/logout")["csrf"]
    before = store.history.newest(), store.settings()
    for route in PAGES:
        url = url_of(route, store.id)
        answer = reader.get(url) if route.method == "GET" else reader.post(url, {"csrf": token, "key": reader.key})
        assert (answer.status == 403) == (route.scope != "read"), url
    assert (store.history.newest(), store.settings()) == before


@pytest.mark.parametrize("scope", [*SCOPES, "admin"])
def test_a_page_shows_no_link_and_no_form_that_the_key_may_not_use(api: Api, store: MemoryStore, scope: str) -> None:
    """Every link and form of the pages of a store leads to something that the key may do."""
    person = Person(api.with_key("read", scope))
    memory = store.load("/memories/notes/a.md")[0]
    ids = {**ENDINGS, "memory_id": memory.id, "version_id": memory.version_id}
    links: dict[str, str] = {}
    for url in pages_of(store.id, **ids):
        page = person.get(url)
        if page.status != 200:
            continue
        links |= {each.partition("#")[0]: url for each in page.links if each.startswith("/console/")}
        for method, action, _ in page.forms:
            allowed = [each for each in PAGES if each.method == method.upper() and _is_at(each, action)]
            assert action in {"", "/console/logout", "/console/"} or any(person_can(scope, each) for each in allowed), (
                f"{url} has a form for {action}"
            )
    for link, url in links.items():
        known = [each for each in PAGES if each.method == "GET" and _is_at(each, link)]
        assert any(person_can(scope, each) for each in known), f"{url} links to {link}"


def person_can(scope: str, route: PageRoute) -> bool:
    return route.scope == "read" or scope in {route.scope, "admin"}


def _is_at(route: PageRoute, action: str) -> bool:
    pattern = re.sub(r"\\\{\w+:path\\\}", ".*", re.escape("/console" + route.path))
    return re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", pattern), action.partition("?")[0]) is not None


def test_a_revoked_key_ends_the_sign_in(api: Api) -> None:
    made = api.place.keys.create("x", scopes=("read",))
    person = Person(api, made.text)
    api.place.keys.change(made.record.id, status="archived")
    assert person.get("/console/").url.endswith("/console/login")


PAGES_OF_A_STORE = [
    each.path
    for each in PAGES
    if each.method == "GET" and each.path.startswith("/s/{store}") and not re.search("[{]|/news", each.path[10:])
]


@pytest.mark.parametrize("page", ["", "/tree/", "/tree/team", "/m/team/a.md", "/m/MARKER.md", *PAGES_OF_A_STORE])
def test_a_key_for_some_paths_sees_no_other(api: Api, store: MemoryStore, at: str, page: str) -> None:
    """Pages about a whole store are refused with a page, and the others show only what is within the paths."""
    store.create("/memories/team/a.md", "inside\n")
    store.create("/memories/MARKER.md", "MARKER\n", actor="user:MARKER")
    person = Person(api.with_key("read", "write", stores=(store.id,), paths=("/memories/team/**",)))
    path = page.format(store=store.id) if page.startswith("/s/") else f"/s/{store.id}{page}" if page else "/"
    answer = person.get(f"/console{path}")
    assert answer.status in {200, 303, 307, 400, 403, 404}
    assert "MARKER" not in answer.body.replace("/m/MARKER.md", "")
    if page in {"", "/tree/", "/tree/team", "/m/team/a.md"}:
        assert answer.status == 200


def test_a_key_for_some_paths_gets_no_figures_of_whole_stores(api: Api, store: MemoryStore, at: str) -> None:
    """Neither the tabs nor the footer, limits, lists and orders tell how much there is elsewhere."""
    store.create("/memories/large.txt", "x" * 12_345)
    store.change_settings({"max_memories": 3, "max_store_bytes": 13_000})
    size = store.usage().size_bytes
    limited = Person(api.with_key("read", "write", paths=("/memories/notes/**",)))
    whole = Person(api.with_key("read", "write"))
    figures = re.compile(rf"\"n\">3<|3 memories|12\.3 KB|12\.4 KB|{size}|of a limit|of 3 ")
    pages = ("/tree/", "/activity", "/stats", "/m/notes/a.md", "/search?q=one")
    for url in (*(at + page for page in pages), f"/console/?q={store.key}"):
        page = limited.get(url)
        assert page.status == 200
        assert not figures.search(page.body), url
    assert all(figures.search(whole.get(at + page).body) for page in pages)
    assert "/memories/notes/**" in limited.get(f"{at}/tree/").text
    for sort in ("memories", "size", "full"):
        assert (limited.get(f"/console/?sort={sort}").status, whole.get(f"/console/?sort={sort}").status) == (400, 200)
        assert not [link for link in limited.get("/console/").links if f"sort={sort}" in link]
        assert "the API key is limited to some paths" in limited.get(f"/console/?sort={sort}").text
