"""A deprecated route says so in a header, in the log, and in the OpenAPI document."""

from __future__ import annotations

import logging
from datetime import date
from typing import Any

import pytest

from retentive import deprecation
from retentive.deprecation import Deprecation
from retentive.server import openapi
from support.http_api import Api

ROUTE = "GET /v1/memory_stores"
EXAMPLES = (
    Deprecation("route", ROUTE, "GET /v2/memory_stores", since="1.2", on=date(2027, 1, 31), removed_in="2.0"),
    Deprecation("setting", "list_rows", "nothing", since="1.2", on=date(2027, 1, 31), removed_in="2.0"),
)


@pytest.mark.filterwarnings("ignore:list_rows is deprecated:DeprecationWarning")
def test_a_deprecated_route(
    api: Api, at: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert "deprecation" not in api.get("/v1/memory_stores").headers
    monkeypatch.setattr(deprecation, "DEPRECATIONS", EXAMPLES)
    monkeypatch.setattr(deprecation, "_announced", set())
    with caplog.at_level(logging.WARNING, logger="retentive.server"):
        for _ in range(2):
            assert api.get("/v1/memory_stores").headers["deprecation"] == "@1801353600"  # as RFC 9745 has it
        assert "deprecation" not in api.get(at).headers
        api.post(f"{at}/settings", {"list_rows": 5})
    warned = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warned == [each.sentence for each in EXAMPLES]


def test_the_document_marks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "DEPRECATIONS", EXAMPLES)
    paths: Any = openapi.document.__wrapped__()["paths"]
    marked = [(path, name) for path, methods in paths.items() for name, each in methods.items() if "deprecated" in each]
    assert marked == [("/v1/memory_stores", "get")]
