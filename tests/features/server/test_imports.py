"""Imports over HTTP: tar files and exports as streamed bodies, as one change, under the rules of the store."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from retentive import MemoryStore
from retentive.server import requests
from retentive.server.handlers import stores
from retentive.transfer.export import export_whole
from support.http_api import Answer, Api

LONG = "/".join(["directory of a long name " * 4] * 5)


def tar_of(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return raw.getvalue()


def outcomes(answer: Answer) -> dict[str, str]:
    assert answer.status == 200, answer.body
    return {each["name"]: each["outcome"] for each in answer.body["files"]}


@pytest.fixture
def archive(api: Api, store: MemoryStore, tmp_path: Path) -> bytes:
    """An export of a store with a history, which is erased afterwards."""
    store.create("/memories/a.md", "one\n", actor="user:ann")
    store.write("/memories/d/b.md", "zwei ü\n")
    store.rename("/memories/a.md", "/memories/c.md")
    export_whole(store, str(tmp_path / "a.tar.zst"))
    api.place.opened.erase(store.id)
    return (tmp_path / "a.tar.zst").read_bytes()


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_tar_file_is_imported(api: Api, store: MemoryStore, at: str, form: int, is_compressed: bool) -> None:
    """Of any tar program, also with names that need extended headers."""
    files = {"./a.md": b"one\n", "d/ü.md": b"zwei", f"{LONG}/c.md": b"three", "binary": b"\xff",
             ".git/config": b"x", "d/../e.md": b"up"}  # fmt: skip
    body = tar_of(files, form)
    answer = api.send("POST", f"{at}/import", gzip.compress(body) if is_compressed else body)
    assert outcomes(answer) == {"a.md": "created", "d/ü.md": "created", f"{LONG}/c.md": "created",
                                "binary": "refused", ".git": "left", "d/../e.md": "refused"}  # fmt: skip
    assert store.read(f"/memories/{LONG}/c.md") == "three"
    versions = store.versions()
    assert (len(versions), len({each.revision for each in versions})) == (3, 1)
    assert {str(each.actor) for each in versions} == {f"api_key:{api.place.keys.authenticated(api.key).id}"}  # type: ignore[union-attr]


def test_overwrite_and_dry_run(api: Api, store: MemoryStore, at: str) -> None:
    store.create("/memories/a", "mine")
    body = tar_of({"a": b"theirs", "b": b"new"})
    assert outcomes(api.send("POST", f"{at}/import?dry_run=true&overwrite=true", body)) == {"a": "replaced",
                                                                                           "b": "created"}  # fmt: skip
    assert len(store.versions()) == 1
    assert outcomes(api.send("POST", f"{at}/import", body)) == {"a": "exists", "b": "created"}
    assert outcomes(api.send("POST", f"{at}/import?overwrite=true", body)) == {"a": "replaced", "b": "same"}
    assert store.read("/memories/a") == "theirs"


def test_nothing_is_imported_if_the_body_is_wrong(api: Api, archive: bytes) -> None:
    good = tar_of({"a": b"one", "b": b"x" * 5_000})
    target = api.place.opened.store("target of wrong bodies")
    wrong = [b"", b"x", good[:3_000], good[:700], gzip.compress(good)[:-9], archive, b"\x1f\x8b" + good,
             b"x" * 10_000, good[:512] + b"x" * 512 + good[1024:1536] + b"?" * 512]  # fmt: skip
    for body in wrong:
        answer = api.send("POST", f"/v1/memory_stores/{target.id}/import", body)
        assert (answer.status, answer.error["details"]["error_code"]) == (400, "invalid_input"), body[:20]
    assert target.versions() == []


def test_rules_of_the_actor_apply(api: Api, store: MemoryStore, at: str) -> None:
    """An import is no way around review and `allow_write`, and the audit log names the actor."""
    store.change_settings({"review": ["session:*"], "audit": True})
    writer = api.with_key("write", act_as=("session:*",)).send_as("session:s1")
    answer = writer.send("POST", f"{at}/import", tar_of({"a": b"one"}))
    assert (answer.status, answer.body["proposed"], store.memories()) == (200, True, [])
    assert [each.summary for each in store.review.pending()] == ["created /memories/a"]
    entry = next(each for each in store.audit.entries() if each.operation == "import")
    assert (entry.actor, entry.integration) == ("session:s1", "http")
    store.change_settings({"review": [], "allow_write": {"session:*": ["/memories/own/**"]}})
    found = writer.send("POST", f"{at}/import", tar_of({"own/a": b"x", "other": b"x"}))
    assert outcomes(found) == {"own/a": "created", "other": "refused"}


def test_a_long_body_needs_no_memory(api: Api, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be longer than other bodies, and arrives in pieces."""
    body = tar_of({f"{number}": b"x" * 90_000 for number in range(40)})
    monkeypatch.setattr(requests, "MAX_BODY_BYTES", len(body) // 3)
    assert api.server is not None
    monkeypatch.setattr(api.server, "max_bodies_bytes", 1)
    found = outcomes(api.send("POST", f"{at}/import", body))
    assert [*found.values()] == ["created"] * 40


def test_limits(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files, of each text, of the whole archive when it is not compressed, and of the body."""
    target = api.place.opened.store("target with limits")
    at = f"/v1/memory_stores/{target.id}"
    monkeypatch.setattr(requests, "MAX_UPLOAD_BYTES", 15_000)
    answer = api.send("POST", f"{at}/import", tar_of({"a": b"x" * 20_000}))
    assert answer.status == 413
    monkeypatch.setattr(stores, "MAX_TEXT_BYTES", 3)
    assert outcomes(api.send("POST", f"{at}/import", tar_of({"a": b"one", "b": b"four"})))["b"] == "refused"
    monkeypatch.setattr(stores, "MAX_FILES", 1)
    assert (
        api.send("POST", f"{at}/import", tar_of({"c": b"x", "d": b"x"})).error["details"]["error_code"] == "too_large"
    )
    monkeypatch.setattr(stores, "MAX_UPLOAD_BYTES", 5_000)
    bomb = gzip.compress(tar_of({"c": bytes(100_000)}))
    assert api.send("POST", f"{at}/import", bomb).error["details"]["error_code"] == "too_large"
    assert len(target.memories()) == 1


def test_a_body_that_is_cut_imports_nothing(api: Api, store: MemoryStore, at: str) -> None:
    parts, body = urlsplit(api.url), tar_of({"a": b"one"})

    def pieces() -> Iterator[bytes]:
        yield body[:600]
        raise BrokenPipeError

    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    with pytest.raises(BrokenPipeError):
        connection.request("POST", f"{at}/import", pieces(), {"x-api-key": api.key, "transfer-encoding": "chunked"},
                           encode_chunked=True)  # fmt: skip
    connection.close()
    assert api.get(f"{at}/memories").body["data"] == []
