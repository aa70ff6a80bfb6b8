"""The restore drill: all is lost, a backup is restored, and clients go on with their keys (`make check NAME=drill`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import retentive
from support.command_line import here
from support.http_api import Api
from support.places import place_of
from support.profiles import some
from support.served_process import started

A, B = "/memories/a.md", "/memories/b.md"
URL = "https://hooks.example/"


class Client(Api):
    """A client of a server in another process."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key, None)  # type: ignore[arg-type]

    def create(self, store_id: str, number: int, path: str, text: str) -> dict[str, Any]:
        """Send a command as the call of a tool, with the same id for the same number."""
        call = {"command": "create", "path": path, "file_text": text}
        body = {"type": "tool_use", "id": f"toolu_{number:024}", "name": "memory", "input": call}
        return dict(self.post(f"/v1/memory_stores/{store_id}/tool", body).body)

    def everything(self, store_id: str) -> list[Any]:
        """Return what the key may see of keys, webhooks, stores and histories."""
        paths = ("/v1/organizations/api_keys", "/v1/webhook_endpoints", "/v1/memory_stores")
        found = [self.get(each).body for each in (*paths, f"/v1/memory_stores/{store_id}/memory_versions")]
        for key in found[0]["data"]:
            key.pop("last_used_at")
        return found


@pytest.mark.parametrize("kind", some(["sealed sqlite", "sqlite", "postgresql"], 3))
def test_clients_go_on_after_everything_was_lost(kind: str, tmp_path: Path) -> None:
    """A call that the backup has is not run again when it is repeated. One that it lacks is lost, and runs again."""
    for name in ("lost", "new"):
        (tmp_path / name).mkdir()
    base, key_file, file = kind.removeprefix("sealed "), str(tmp_path / "keys.json"), str(tmp_path / "saved.tar.zst")
    at, new = (place_of(base, tmp_path / name) for name in ("lost", "new"))
    sealed = ("--keys", key_file) if base != kind else ()
    if sealed:
        assert here(at, "admin", "encryption", "new", *sealed).exit_code == 0
    admin, reader = (
        here(at, "keys", "new", name, *sealed, "--scope", scope).stdout.strip()
        for name, scope in (("boss", "admin"), ("reader", "read"))
    )
    with started("--at", at, *sealed, directory=tmp_path) as (_, lines):
        client = Client(lines[-1].split()[-1], admin)
        store_id = client.post("/v1/memory_stores", {"name": "Team", "key": "team"}).body["id"]
        hook = {"url": URL, "enabled_events": ["memory_store.archived"]}
        secret = client.post("/v1/webhook_endpoints", hook).body["signing_secret"]
        first = client.create(store_id, 1, A, "one")
        saved = client.everything(store_id)
        assert here(at, "admin", "backup", file).exit_code == 0  # while the server runs
        client.create(store_id, 2, B, "after the backup")
    result = here(new, "admin", "restore-backup", file)
    assert result.exit_code == 0, result.output
    assert ("New secret of whep_" in result.stdout) == (not sealed)
    with started("--at", new, *sealed, directory=tmp_path) as (_, lines):
        assert not any("rtv_" in line for line in lines)  # no admin key is made
        client = Client(lines[-1].split()[-1], admin)
        assert client.everything(store_id) == saved
        assert client.create(store_id, 1, A, "one") == first
        assert client.everything(store_id) == saved
        assert "already exists" in json.dumps(client.create(store_id, 3, A, "another"))
        client.create(store_id, 2, B, "after the backup")
        assert len(client.everything(store_id)[3]["data"]) == 2
        other = Client(client.url, reader)
        assert other.get(f"/v1/memory_stores/{store_id}").status == 200
        assert other.post("/v1/memory_stores", {"name": "No"}).status == 403
        assert Client(client.url, admin[:-1] + "x").get("/v1/memory_stores").status == 401
    with retentive.open(new, keys=key_file if sealed else None) as opened:
        ((_, text),) = opened.records.list("webhook_endpoint")
        assert (json.loads(text)["secret"] == secret) == bool(sealed)
