"""`retentive console` and `retentive serve` as programs."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

import retentive
from support.profiles import LONG

PATIENCE_S = 60  # of a request; the default of 5 s is too short beside other work
MAIN = "from retentive.cli import main; main()"


@contextmanager
def program(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, and the address that it prints."""
    command = [sys.executable, "-c", MAIN, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            line = next(line for line in process.stdout if "http://" in line)
            yield process, re.search(r"http://[\d.:]+", line)[0]  # type: ignore[index] # the line has it
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def sign_in(http: httpx2.Client, url: str, key: str) -> httpx2.Response:
    page = http.get(f"{url}/console/login").text
    fields = dict(re.findall(r'name="(csrf|next)" value="([^"]*)"', page))
    return http.post(f"{url}/console/login", data={**fields, "key": key}, headers={"origin": url})


@pytest.mark.long
def test_the_console_of_a_location_takes_its_code_once(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/m.db"
    with retentive.open(at) as opened:
        store = opened.store()
        store.create("/memories/a.md", "hello\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with program("--at", at, "--actor", "ann", "console", "--no-browser", "--port", port) as (process, url):
        assert process.stdout is not None
        assert url.endswith(f":{port}")
        code = process.stdout.readline().split()[-1]
        with httpx2.Client(follow_redirects=True, verify=False, timeout=PATIENCE_S) as http:
            assert "Stores" in sign_in(http, url, code).text
            page = http.get(f"{url}/console/s/{store.id}/edit/a.md").text
            fields = dict(re.findall(r'name="(csrf|version)" value="([^"]*)"', page))
            saved = http.post(
                f"{url}/console/s/{store.id}/edit/a.md", data={**fields, "text": "changed\r\n"}, headers={"origin": url}
            )
            assert "changed" in saved.text
        with httpx2.Client(follow_redirects=True, verify=False, timeout=PATIENCE_S) as stranger:
            assert sign_in(stranger, url, code).status_code == 403
            assert "One-time code" in stranger.get(f"{url}/console/").text
    with retentive.open(at) as opened:
        newest = opened.store().versions()[0]
        assert (str(newest.actor), newest.provenance.integration) == ("user:ann", "console")


@pytest.mark.skipif(not LONG, reason="a whole program: RETENTIVE_PROFILE=long")
def test_a_server_without_the_console_has_no_pages(tmp_path: Path) -> None:
    with program("--at", f"sqlite:///{tmp_path}/m.db", "serve", "--port", "0", "--no-console") as (_, url):
        assert httpx2.get(f"{url}/console/", verify=False, timeout=PATIENCE_S).status_code == 404
