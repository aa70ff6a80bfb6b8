"""A test that needs a server is skipped without it, and fails in CI."""

from __future__ import annotations

import os

import pytest

from support import servers
from support.servers import AzuriteServer, ServerFailed

pytestmark = pytest.mark.long


def test_a_missing_server_is_a_skip_and_in_ci_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETENTIVE_AZURITE", os.devnull)
    monkeypatch.delenv("RETENTIVE_SERVERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="is not installed"):
        servers.required(AzuriteServer)
    monkeypatch.setenv("RETENTIVE_SERVERS", "required")
    with pytest.raises(ServerFailed, match="is not installed"):
        servers.required(AzuriteServer)
