"""A person connects a client in Chromium, which checks the policies of the pages also for redirects of forms."""

from __future__ import annotations

import pytest

from support.browser import AXE, FAULTS, RULES, Browser, browser, signed_in
from support.console import query_of
from support.http_api import Api
from support.listener import Received, listening

__all__ = ["browser"]


@pytest.mark.parametrize(("scheme", "width", "js"), [("light", 1440, True), ("dark", 390, False)])
def test_the_browser_goes_back_to_the_client(
    alone: Api, browser: Browser, scheme: str, width: int, *, js: bool
) -> None:
    alone.place.opened.store("team")
    seen, problems = list[str](), list[str]()

    def called(request: Received) -> tuple[int, bytes]:
        seen.append(request.path)
        return 302, b""

    with (
        listening(lambda _: (200, b"all is done")) as after,
        listening(called, location=f"{after}/done") as url,
        signed_in(browser, alone, scheme=scheme, width=width, js=js, problems=problems) as page,
    ):
        client = alone.post("/oauth/register", {"redirect_uris": [f"{url}/callback"], "client_name": "Chrome"}).body
        asked = (
            f"response_type=code&client_id={client['client_id']}&code_challenge_method=S256&code_challenge={'a' * 43}"
        )
        for button in ("Refuse", "Connect"):
            page.goto(f"/console/authorize?response_type=code&code_challenge_method=S256&{asked}")
            assert page.evaluate(FAULTS) == []
            if js and AXE.exists():
                page.evaluate(AXE.read_text("utf-8"))
                assert page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)["violations"] == []
            page.get_by_role("button", name=button, exact=True).click()
            page.get_by_text("all is done").wait_for()
    found = [query_of(path) for path in seen if path.startswith("/callback?")]
    assert [each.get("error") for each in found] == ["access_denied", None]
    assert found[1]["code"].startswith("rtvc_")
    assert [each for each in problems if not each.startswith((url, after))] == []
