"""`retentive gateway`: the two lines to paste, and a line for each memory call, with no contents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import pytest

import retentive
from retentive.testing.scripted_claude import Call, Script, ScriptedClaude, Turn
from support.served_process import MAIN, out, stop

from .gateways import MODEL, NOTES, said

CREATE = Call({"command": "create", "path": NOTES, "file_text": "tea\n"})
WRONG = Call({"command": "view", "path": "/etc/pass\x1b[2Jwd"})


def test_one_laptop(tmp_path: Path) -> None:
    script = Script((Turn((CREATE, WRONG)), "Done."))
    with ScriptedClaude(script) as claude:
        words = ["gateway", "--store", "my work", "--port", "0", "--upstream", claude.url, "--actor", "user:ann"]
        command = [sys.executable, "-c", MAIN, *words]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            lines = [out(process.stdout).readline() for _ in range(2)]
            url = lines[0].removeprefix("export ANTHROPIC_BASE_URL=").strip()
            assert url.endswith("/gateway/my%20work")
            with anthropic.Anthropic(base_url=url, api_key="sk", max_retries=0) as client:
                given: Any = {"model": MODEL, "max_tokens": 99, "messages": [{"role": "user", "content": "hello"}]}
                assert said(client.messages.create(**given)) == "Done."
                for headers in ({"origin": "https://evil.example"}, {"host": "evil.example"}):
                    with pytest.raises(anthropic.PermissionDeniedError):
                        client.messages.create(**given, extra_headers=headers)
            shown = [out(process.stdout).readline()[9:] for _ in range(2)]
            assert shown[0] == f"create {NOTES}\n"
            assert shown[1].startswith("view /etc/pass")
            assert shown[1].endswith("(error)\n")
            assert "\x1b" not in shown[1]
        finally:
            stop(process)
        claude.verify()
    with retentive.open(tmp_path / "memory") as opened:
        store = opened.store("my work")
        assert store.read(NOTES) == "tea\n"
        (version,) = store.history.log()
        assert (str(version.actor), version.provenance.source) == ("user:ann", "gateway")
