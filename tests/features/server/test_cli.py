"""`retentive keys` and `retentive serve`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import retentive
from retentive.errors import InvalidInput
from retentive.server.calls import ServedLocation
from retentive.server.options import ServeOptions
from support.command_line import here
from support.http_api import Api
from support.served_process import started


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


def test_keys_are_created_listed_and_revoked(at: str) -> None:
    made = here(at, "keys", "new", "ci", "--scope", "read", "--stores", "team-*", "--expires-in-days", "30", "--json")
    record = json.loads(made.stdout)
    assert re.fullmatch(r"rtv_\w{62}", record["api_key"])
    assert (record["scopes"], record["stores"], "digest" in record) == (["read"], ["team-*"], False)
    (row,) = here(at, "keys").stdout.splitlines()
    assert row.split("\t")[:5] == [record["id"], "ci", "active", "read", "team-*"]
    assert here(at, "keys", "revoke", record["id"]).stdout == f"Revoked {record['id']} (ci).\n"
    (listed,) = json.loads(here(at, "keys", "list", "--json").stdout)
    assert (listed["status"], listed["last_used_at"]) == ("archived", None)
    assert here(at, "keys", "revoke", "apikey_unknown00000").exit_code == 3
    assert record["api_key"] not in made.stderr


@pytest.mark.long
def test_the_first_start_prints_a_key_once(tmp_path: Path, at: str) -> None:
    with started("--at", at, directory=tmp_path) as (process, lines):
        first = lines[0].rpartition(" ")[2]
        url = lines[-1].rpartition(" ")[2]
        with retentive.open(at) as opened:
            api = Api(url, first, ServedLocation(opened))
            assert api.get("/readyz").body["status"] == "ready"
            assert api.get("/v1/organizations/api_keys").body["data"][0]["scopes"] == ["admin"]
    assert process.returncode == 0
    with started("--at", at, "--no-request-log", directory=tmp_path) as (_, again):
        assert "First API key" not in "\n".join(again)


@pytest.mark.parametrize("proxies", ["*", "0.0.0.0/0", "::/0", "10.0.0.1/8", "proxy.example", "10.0.0.1,x"])
def test_trusted_proxies_are_addresses_and_networks(proxies: str) -> None:
    """Not all addresses: if each client were a proxy, each could choose its address."""
    with pytest.raises(InvalidInput, match="--trusted-proxies"):
        ServeOptions("sqlite://", trusted_proxies=proxies).check()
    ServeOptions("sqlite://", trusted_proxies=" 10.0.0.1, fd00::/8 ,").check()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "memory.example"])
def test_other_addresses_need_tls(host: str) -> None:
    with pytest.raises(InvalidInput, match="TLS"):
        ServeOptions("sqlite://", host=host).check()
    ServeOptions("sqlite://", host=host, insecure_no_tls=True).check()
    ServeOptions("sqlite://", host=host, tls_cert=__file__, tls_key=__file__).check()
    with pytest.raises(InvalidInput):
        ServeOptions("sqlite://", host=host, tls_cert=__file__).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    ServeOptions("sqlite://", host=host).check()
