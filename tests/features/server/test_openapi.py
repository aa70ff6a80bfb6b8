"""Random requests made from the OpenAPI document and from the table of routes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from retentive import MemoryStore
from retentive.server.calls import Route
from retentive.server.handlers import ROUTES
from retentive.server.handlers.stores import ARCHIVES
from retentive.server.keys import id_in
from support.http_api import Api, fields_in
from support.profiles import FULL, LONG, sized

WRONG: tuple[object, ...] = (
    None, True, 0, -1, 2**63, 1e308, "", "x", "\0", "é\u0301", "\U0001f600", "/", "/a//b", "/../b", "\u202e", "%00",
    "a" * 5_000,
    [], ["x"], [None], {}, {"type": "x"}, {"a": {"b": [{}]}}, [[[[1]]]], "memver_" + "f" * 32, "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "session:s1", "*", "?",
    "$(id)", "' OR 1=1 --", "\r\nX: y",
)  # fmt: skip
STREAMS = {"stream_events"}
OF_MODELS = {"run_tool", "run_command"}
"""Routes that answer a malformed command with 200 and a text for the model."""
GONE = {"delete_memory_store", "archive_memory_store", "update_api_key"}
"""Routes that would end the things that other requests use."""


@pytest.fixture
def ids(api: Api, store: MemoryStore) -> dict[str, str]:
    """Ids of things that exist."""
    written = store.create("/memories/a.md", "one\n")
    store.change_settings({"review": ["session:*"], "audit": True})
    store.write("/memories/a.md", "two\n", actor="session:s1")
    return {
        "memory_store_id": store.id,
        "memory_id": store.memories()[0].id,
        "memory_version_id": written.version_id,
        "proposal_id": store.review.pending()[0].id,
        "api_key_id": id_in(api.key) or "",
    }


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: each.name)
def test_wrong_values_get_a_documented_answer(api: Api, ids: dict[str, str], route: Route) -> None:
    """Each value in each field in turn; `Api.send` compares the answers with the document."""
    if route.name in GONE:
        ids = {name: f"{value}x" for name, value in ids.items()}
    path = route.path.format(**{name: ids.get(name, "x") for name in route.path_names})
    in_query, in_body = fields_in(route.query), fields_in(route.body)
    step = sized(quick=7, long=1, full=1)
    for number, field in enumerate([*in_query, *in_body]):
        for value in WRONG[number % step :: step]:
            others = {name: "x" for name, schema in in_body.items() if schema["required"]}
            body = {**others, field: value} if number >= len(in_query) else others
            text = value if isinstance(value, str) else json.dumps(value)
            query = f"?{quote(field)}={quote(text)}" if number < len(in_query) else ""
            if route.name in STREAMS and text in {"", "0"}:
                continue  # the answer would not end
            sent = json.dumps(body).encode() if route.method == "POST" else None
            assert api.send(route.method, path + query, sent).status < 500


_ARCHIVES = f"""\
import schemathesis


@schemathesis.serializer(*{ARCHIVES!r})
def any_bytes(context, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
"""
"""Hooks of Schemathesis, which does not know how to send archives."""


@pytest.mark.skipif(not LONG, reason="takes a minute; runs in the long profile")
@pytest.mark.parametrize("scope", ["admin", "read"])
def test_schemathesis(api: Api, store: MemoryStore, ids: dict[str, str], scope: str, tmp_path: Path) -> None:
    """No 5xx, and nothing that the document does not have: status, type of content, or field. Keys are checked."""
    if importlib.util.find_spec("schemathesis") is None:
        pytest.skip("schemathesis is not installed")
    for number in range(30):
        store.create(f"/memories/d/{number}", "x\n")
    key = api.with_key(scope).key
    refusals = "400, 401, 403, 404, 405, 409, 413, 414, 431"
    lines = ["[checks.negative_data_rejection]", f"expected-statuses = [{refusals}]"]
    lines += ["[parameters]", *(f'"path.{name}" = "{value}"' for name, value in ids.items())]
    lines += ["[[operations]]", f"include-operation-id = {json.dumps(sorted(GONE))}"]
    lines += ["parameters = { " + ", ".join(f'"path.{name}" = "x"' for name in ids) + " }"]
    lines += ["[[operations]]", f"include-operation-id = {json.dumps(sorted(STREAMS))}", "enabled = false"]
    lines += ["[[operations]]", f"include-operation-id = {json.dumps(sorted(OF_MODELS))}"]
    lines += [f"checks.negative_data_rejection.expected-statuses = [200, {refusals}]"]
    (tmp_path / "schemathesis.toml").write_text("\n".join(lines), "utf-8")
    (tmp_path / "archives.py").write_text(_ARCHIVES, "utf-8")
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{api.url}/openapi.json", "--no-color"]
    command += ["--header", f"Authorization: Bearer {key}", "--phases", "coverage,fuzzing,stateful"]
    command += ["--checks", "all", "--exclude-checks", "positive_data_acceptance", "--continue-on-failure"]
    command += ["--max-examples", sized(quick="1", long="10", full="300")]
    command += [] if FULL else ["--seed", "1"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["SCHEMATHESIS_HOOKS"] = "archives.py"
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-20_000:]
