"""Failed sign-ins, the list of open ones, and what the audit log of the location says about them."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.command_line import here
from support.console import Person
from support.http_api import Api
from support.served_process import started

WRONG = f"rtv_{'a' * 12}_{'b' * 43}000000"


@pytest.fixture
def api(alone: Api) -> Api:
    return alone


def person(api: Api, key: str, address: str = "") -> Person:
    """A person who signs in through a proxy on this machine, which names the address."""
    made = Person(api, key, signs_in=False)
    made.http.headers.update({"x-forwarded-for": address} if address else {})
    return made


def record(api: Api, name: str, *scopes: str, **options: str) -> tuple[Any, str]:
    return api.place.keys.create(name, scopes=scopes, principal=f"user:{name}", **options)


def entries(api: Api) -> list[Any]:
    return [each for each in api.place.opened.records.audit.entries() if "sign" in str(each.operation)]


def shown_log(at: str) -> list[str]:
    """The lines of sign-ins in the audit log of the location."""
    return [line for line in here(at, "admin", "audit", "show", "--location").stdout.splitlines() if "\tsign_" in line]


def said(entry: Any) -> tuple[str | None, str | None, str, object]:
    return entry.operation, entry.actor, entry.outcome, entry.facts.get("address")


def test_wrong_sign_ins_are_slowed_and_a_right_key_always_gets_in(api: Api) -> None:
    ann, text = record(api, "ann", "read")
    wrong = text[:-7] + ("x" if text[-7] != "x" else "y")
    wrong += f"{zlib.crc32(wrong.encode()) & 0xFFFFFF:06x}"  # a key with this id, and not that of ann
    for key, addresses in ((WRONG, ["192.0.2.1"] * 12), (wrong, [f"192.0.2.{number}" for number in range(20, 32)])):
        answers = [person(api, key, address).sign_in() for address in addresses]
        assert [each.status for each in answers] == [403] * 10 + [429] * 2
        assert (answers[-1].headers["retry-after"], "Wait a minute" in answers[-1].text) == ("60", True)
    for address in ("192.0.2.1", "192.0.2.20", "198.51.100.7"):
        assert person(api, text, address).sign_in().status == 200
    assert person(api, WRONG, "198.51.100.8").sign_in().status == 403
    refused = [each for each in entries(api) if each.outcome != "ok"]
    assert len(refused) == 21  # what is refused as too many is not noted
    assert said(refused[0]) == ("sign_in", None, "invalid_key", "192.0.2.1")
    assert ann.id not in str(refused[0].facts)


def test_everybody_ends_own_sign_ins_and_an_administrator_those_of_the_workspace(api: Api) -> None:
    ann, ben, admin, other = (
        person(api, record(api, name, scope, workspace_id=workspace)[1], address)
        for name, scope, workspace, address in [
            ("ann", "read", "wrkspc_default", "192.0.2.1"), ("ben", "read", "wrkspc_default", "192.0.2.2"),
            ("eve", "admin", "wrkspc_default", "192.0.2.3"), ("zoe", "admin", "wrkspc_other", "192.0.2.4"),
        ]
    )  # fmt: skip
    for each in (ann, ben, admin, other):
        assert each.sign_in().status == 200
    pages = [each.get("/console/sessions") for each in (ann, ben, admin, other)]
    names = ["ann", "ben", "eve", "zoe"]
    seen = [[name for name in names if f"user:{name}" in each.text] for each in pages]
    assert seen == [["ann"], ["ben"], ["ann", "ben", "eve"], ["zoe"]]
    assert ["192.0.2.2" in each.text for each in pages] == [False, True, True, False]
    assert [each.problems() for each in pages] == [[]] * 4

    def end(who: Person, **fields: str) -> None:
        page = who.get("/console/sessions")
        assert who.post("/console/sessions/end", {"csrf": page.form("/end")["csrf"], **fields}).status == 200

    foreign = pages[1].form("/end")["id"]
    for stranger in (ann, other):
        end(stranger, id=foreign)
        end(stranger, actor="user:ben")
    assert ben.get("/console/").url.endswith("/console/")
    end(admin, actor="user:ben")
    assert ben.get("/console/").url.endswith("/console/login")
    ended = next(each for each in entries(api) if each.operation == "sign_out")
    assert (ended.actor, ended.facts["by"], ended.facts["address"]) == ("user:ben", "user:eve", "192.0.2.3")
    assert "sign out by" in admin.get("/console/sessions").text
    assert ann.sign_in().status == 200  # a new sign-in replaces the one of the same browser
    assert len(api.place.opened.records.list("console_session")) == 3
    api.place.keys.change(next(each.id for each in api.place.keys.all() if each.name == "ann"), status="archived")
    assert "192.0.2.1" not in admin.get("/console/sessions").text.partition("Audit log")[0]
    assert ann.get("/console/").url.endswith("/console/login")
    assert entries(api)[-1].facts["reason"] == "no_longer_valid"


def test_the_command_line_lists_and_ends_sign_ins(api: Api, tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    ann = person(api, record(api, "ann", "read")[1], "192.0.2.1")
    ann.sign_in()
    (listed,) = json.loads(here(at, "keys", "sessions", "--json").stdout)
    assert (listed["actor"], listed["address"]) == ("user:ann", "192.0.2.1")
    assert ann.http.cookies["retentive"] not in str(listed)
    assert here(at, "keys", "sign-out", "user:ben").exit_code == 3
    assert here(at, "keys", "sign-out", listed["id"]).stdout == "Ended 1 sign-in.\n"
    assert ann.get("/console/").url.endswith("/console/login")
    shown = shown_log(at)
    assert [line.split("\t")[1:4] for line in shown] == [
        ["user:ann", "sign_in", "ok"], ["user:ann", "sign_out", "ok"],
    ]  # fmt: skip
    assert "address=192.0.2.1" in shown[0]
    assert here(at, "admin", "audit", "verify", "--location").stdout.startswith("Sound: ")


@pytest.mark.long
def test_only_named_proxies_say_where_a_request_comes_from(tmp_path: Path) -> None:
    """Proxies append to the list, so the last address that is no proxy counts, and a client cannot choose it."""
    at = f"sqlite:///{tmp_path}/memory.db"
    key = here(at, "keys", "new", "ann").stdout.strip()
    found = []
    for number, proxies in enumerate([[], ["--trusted-proxies", "127.0.0.0/8, 10.0.0.0/8"]]):
        (tmp_path / str(number)).mkdir()
        with started("--at", at, *proxies, directory=tmp_path / str(number)) as (_, lines):
            api = Api(lines[-1].rpartition(" ")[2], key, None)  # type: ignore[arg-type]  # not used by a person
            for sent in ({}, {"x-forwarded-for": "198.51.100.1, 192.0.2.1, 10.0.0.5", "x-forwarded-proto": "https"}):
                with httpx2.Client(base_url=api.url, headers=sent) as client:
                    form = client.get("/console/login")
                    found.append("Secure" in form.headers["set-cookie"])
                    fields = {"key": "wrong", "csrf": re.findall(r'name="csrf" value="(\w+)"', form.text)[0]}
                    name, secret = next(iter(form.cookies.items()))  # sent by hand: a jar keeps Secure ones for TLS
                    client.post("/console/login", data=fields, headers={"cookie": f"{name}={secret}"})
    assert found == [False, False, False, True]
    lines = shown_log(at)
    assert [line.split("\t")[5] for line in lines] == ["address=127.0.0.1"] * 3 + ["address=192.0.2.1"]
