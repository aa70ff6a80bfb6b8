"""Two hosts serve one PostgreSQL. When the leader is killed, the other host does its work, and clients go on there."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import retentive
from support import servers
from support.http_api import Api, api_of
from support.listener import Answer, Received, listening
from support.served_process import Writer, acknowledged, started
from support.waiting import until

LEASE_S = 4
ENOUGH = 40
HOUR_S = 3_600.0


@contextmanager
def host(name: str, at: str, directory: Path) -> Iterator[tuple[int, str]]:
    """A server with its own name, home, temporary files and log. Yields its process id and its URL."""
    home = directory / name
    home.mkdir()
    places = {"HOSTNAME": name, "HOME": str(home), "TMPDIR": str(home)}
    flags = ("--at", at, "--lease-s", str(LEASE_S), "--webhooks-to-private", "--no-request-log")
    with started(*flags, directory=home, **places) as (process, lines):
        yield process.pid, lines[-1].rpartition(" ")[2]


def value(api: Api, name: str) -> float:
    (found,) = re.findall(rf"^retentive_{name} (\S+)$", api.get("/metrics").body.decode(), re.MULTILINE)
    return float(found)


def test_the_other_host_takes_over(tmp_path: Path) -> None:
    received: list[str] = []

    def answer(request: Received) -> Answer:
        received.append(json.loads(request.body)["data"]["id"])
        return 200, b""

    at = servers.postgresql().new_database("two_hosts")
    with listening(answer) as hook, retentive.open(at) as opened, host("a", at, tmp_path) as (first_id, first_url):
        key = api_of(first_url, "", opened).place.keys.create("test", scopes=("admin",)).text
        first = api_of(first_url, key, opened)
        until(lambda: value(first, "leader") == 1)
        until(lambda: value(first, "maintenance_last_ok") == 1)
        with host("b", at, tmp_path) as (_, second_url):
            second = api_of(second_url, key, opened)
            events = ["memory_store.created"]
            assert second.post("/v1/webhook_endpoints", {"url": hook, "enabled_events": events}).status == 200
            before = second.post("/v1/memory_stores", {"name": "before"}).body["id"]
            until(lambda: before in received)
            assert (value(first, "leader"), value(second, "leader")) == (1, 0)
            assert value(second, "database_connections_max") == 16
            run = json.loads(opened.records.get("maintenance", "last") or "")
            late = {each: run[each] - 2 * HOUR_S for each in ("started_at", "finished_at", "succeeded_at")}
            opened.records.put("maintenance", "last", json.dumps(run | late))  # so it is due for a new leader

            store = opened.store()
            writers = [Writer(url, key, store.id, f"w{n}", True) for n, url in enumerate((first_url, second_url) * 2)]
            threads = [Thread(target=each.run) for each in writers]
            for each in threads:
                each.start()
            until(lambda: acknowledged(writers) >= ENOUGH)
            os.kill(first_id, signal.SIGKILL)
            for writer in writers:
                writer.url = second_url  # as a load balancer does
            after = second.post("/v1/memory_stores", {"name": "after"}).body["id"]
            until(lambda: value(second, "leader") == 1)
            until(lambda: after in received)
            until(lambda: value(second, "maintenance_last_success_timestamp_seconds") > run["finished_at"])
            enough = acknowledged(writers) + ENOUGH
            until(lambda: acknowledged(writers) >= enough)
            for writer in writers:
                writer.ended.set()
            for each in threads:
                each.join()
            for writer in writers:
                writer.check(store)
