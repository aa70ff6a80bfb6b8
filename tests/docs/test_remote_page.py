"""The program of docs/remote.md runs against a server."""

from __future__ import annotations

import pytest

import retentive
from support.http_api import serving
from support.pages import ROOT, blocks

PAGE = ROOT / "docs" / "remote.md"


def test_the_program_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = [block.body for block in blocks(PAGE) if block.body.startswith("# remember.py")]
    with retentive.open("sqlite://") as opened, serving(opened) as api:
        monkeypatch.setenv("RETENTIVE_API_KEY", api.key)
        exec(program.replace("https://memory.example.com:8443", api.url).replace(', ca_file="cert.pem"', ""), {})
    shown = "Here's the content of /memories/ada.md with line numbers:\n     1\tAda prefers e-mail.\n"
    assert capsys.readouterr().out == f"True Ada prefers e-mail.\n{shown}"
    assert len([line for line in program.splitlines()[1:] if line]) <= 15
