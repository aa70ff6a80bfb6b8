"""Sign-ins in Chromium at oidc-provider, a certified implementation of OpenID Connect. In the long profile."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import retentive
from retentive.server.oauth import Issuer, Tokens
from retentive.server.openid import CHECK_S, People
from support import node
from support.browser import AXE, RULES, Browser, Page, browser, expect
from support.clock import Clock
from support.http_api import Api
from support.profiles import REQUIRED

__all__ = ["browser"]

SECRET = "a secret of the test"
GROUPS = [
    {"name": "writers", "role": "write", "stores": ["team-*"]},
    {"name": "admins", "role": "admin"},
]
CLOCK = Clock()


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """Claims of the people of the provider. A test changes them."""
    found = tmp_path / "users.json"
    found.write_text(json.dumps({"ann": {"groups": ["writers"]}, "eve": {"groups": ["admins"]}}), "utf-8")
    return found


@pytest.fixture
def api(
    tmp_path: Path, users: Path, monkeypatch: pytest.MonkeyPatch, served: Callable[..., AbstractContextManager[Api]]
) -> Iterator[Api]:
    folder = node.modules("oidc-provider")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("TEST_SECRET", SECRET)
    given = {
        "issuer": url, "audience": "x", "workspace": "wrkspc_default", "name": "test", "client_id": "retentive",
        "client_secret_env": "TEST_SECRET", "groups": GROUPS, "sign_in_scopes": "openid groups",
    }  # fmt: skip
    CLOCK.now = time.time()
    tokens = Tokens("https://memory.example", [Issuer.read(given)])
    with (
        retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened,
        served(opened, tokens=tokens) as found,
    ):
        people = People(tokens, opened.records, clock=CLOCK)
        people.resource = found.url
        assert found.server is not None
        found.server.sessions.people = people
        (tmp_path / "node_modules").symlink_to(folder)
        program = shutil.copy(Path(node.__file__).with_name("openid_provider.mjs"), tmp_path)
        variables = {"ISSUER": url, "PORT": str(port), "SERVER": found.url, "USERS": str(users), "SECRET": SECRET}
        process = subprocess.Popen(
            [node.executable(folder), program], cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
            for key in ("team-a", "private"):
                opened.store(key)
            yield found
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def page(browser: Browser, api: Api) -> Iterator[Page]:
    context = browser.new_context(base_url=api.url)
    context.set_default_timeout(15_000)
    yield context.new_page()
    context.close()


def sign_in(page: Page, name: str) -> None:
    """Sign in with the pages of the provider, and let the console know who one is."""
    page.click("text=Sign in with test")
    page.fill("[name=login]", name)
    page.fill("[name=password]", "any")
    page.click("button.login-submit")
    page.locator("[name=prompt][value=consent]").wait_for(state="attached")
    page.click("button[type=submit]")


def test_groups_become_rights_and_signing_out_ends_both(page: Page, api: Api) -> None:
    page.goto("/console/keys")
    if not AXE.exists():
        assert not REQUIRED, "axe-core is not installed"
    else:
        page.evaluate(AXE.read_text("utf-8"))
        found = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
        assert [each["id"] for each in found["violations"]] == []
    sign_in(page, "ann")
    expect(page.locator("h1")).to_have_text("Not allowed")  # it came back to the page that it had asked for
    page.goto("/console/")
    expect(page.locator("main")).to_contain_text("team-a")
    expect(page.locator("main")).not_to_contain_text("private")
    page.goto("/console/s/team-a/new")
    page.fill("[name=path]", "/memories/a.md")
    page.fill("textarea", "one")
    page.click("main button.main")
    expect(page.locator("main")).to_contain_text("user:ann")
    page.click("summary.pill")
    page.click("text=Sign out")
    page.click("text=Yes, sign me out")  # of the provider
    page.wait_for_url(f"{api.url}/console/login")
    page.goto("/console/")
    page.click("text=Sign in with test")
    expect(page.locator("[name=password]")).to_be_visible()


def test_a_person_whose_groups_change_and_who_is_revoked(page: Page, api: Api, users: Path) -> None:
    page.goto("/console/")
    sign_in(page, "ann")
    expect(page.locator("h1")).to_have_text("Stores")
    users.write_text(json.dumps({"ann": {"groups": ["admins"]}}), "utf-8")
    page.goto("/console/sessions")
    expect(page.locator("main")).to_contain_text("Your open sign-ins")
    CLOCK.now += CHECK_S + 1
    page.reload()
    expect(page.locator("main")).to_contain_text("of everybody in the workspace")
    users.write_text("{}", "utf-8")
    CLOCK.now += CHECK_S + 1
    page.reload()
    page.wait_for_url(f"{api.url}/console/login?next=%2Fconsole%2Fsessions")
    assert [each.operation for each in api.place.opened.records.audit.entries()][-2:] == ["sign_in", "sign_out"]
