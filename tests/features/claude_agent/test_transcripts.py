"""`TranscriptStore`: the conformance suite of the SDK on every backend, repeated and concurrent appends, copies."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from claude_agent_sdk.testing import run_session_store_conformance

import retentive
from retentive import errors
from retentive.claude_agent import TranscriptStore
from support.http_api import serving
from support.places import EVERYWHERE, KEYS, SEALED, place_of

KEY = {"project_key": "project", "session_id": "session"}


def opened(backend: str, directory: Path) -> retentive.Retentive:
    return retentive.open(place_of(backend, directory), keys=KEYS if backend in SEALED else None)


def entries(*numbers: int, **more: object) -> Any:
    return [{"type": "user", "uuid": f"u{number}", "n": number, **more} for number in numbers]


def key(**more: str) -> Any:
    return KEY | more


@pytest.mark.parametrize("backend", [*EVERYWHERE, "sealed directory"])
def test_the_suite_of_the_sdk_passes(backend: str, tmp_path: Path) -> None:
    names = count()
    with opened(backend, tmp_path) as place:
        asyncio.run(run_session_store_conformance(lambda: TranscriptStore(place, store=f"t{next(names)}")))


def test_a_repeated_batch_adds_nothing(tmp_path: Path) -> None:
    """Also for another process, and after the transcript began anew."""
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as one, retentive.open(at) as other:
        first, second = TranscriptStore(one), TranscriptStore(other)

        async def steps() -> None:
            await first.append(key(), entries(1, 2))
            await first.append(key(), entries(1, 2))
            await second.append(key(), entries(2, 3))
            await first.append(
                key(), [*entries(3, 4, 4), cast("Any", {"type": "title"}), cast("Any", {"type": "title"})]
            )
            found = await first.load(key())
            assert [each.get("n") for each in cast("Any", found)] == [1, 2, 3, 4, None, None]
            await second.delete(key())
            await first.append(key(), entries(1))
            assert await second.load(key()) == entries(1)

        asyncio.run(steps())


def test_concurrent_appends_lose_nothing(tmp_path: Path) -> None:
    async def run(stores: list[TranscriptStore]) -> None:
        await asyncio.gather(*(stores[n % 2].append(key(), entries(n, n + 1000)) for n in range(60)))
        found = cast("Any", await stores[0].load(key()))
        assert sorted(each["n"] for each in found) == sorted([*range(60), *range(1000, 1060)])
        numbers = [each["n"] for each in found]
        assert all(numbers.index(n) < numbers.index(n + 1000) for n in range(60))

    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as one, retentive.open(at) as other:
        asyncio.run(run([TranscriptStore(one), TranscriptStore(other)]))


def test_large_and_strange_entries(tmp_path: Path) -> None:
    strange: Any = {"type": "x", "text": "\ud800 \0 \u2028 \x85 é", "deep": [[{"a": None}]], "n": 1e300}
    large = entries(1, 2, text="é" * 400_000)
    odd = key(project_key="a/../b\0", session_id="\ud800", subpath="x.y/../z")
    with retentive.open(tmp_path / "memory") as place:
        store = TranscriptStore(place)
        asyncio.run(store.append(odd, [strange, *large]))
        assert asyncio.run(store.load(odd)) == [strange, *large]
        assert asyncio.run(store.list_subkeys(odd)) == ["x.y/../z"]


def test_transcripts_are_encrypted_and_backed_up(tmp_path: Path) -> None:
    secret = entries(1, text="a secret plan")
    with retentive.open(tmp_path / "one", keys=KEYS) as place:
        asyncio.run(TranscriptStore(place).append(key(), secret))
    assert not any(b"secret plan" in path.read_bytes() for path in (tmp_path / "one").rglob("*") if path.is_file())
    with retentive.open(tmp_path / "two") as place:
        asyncio.run(TranscriptStore(place).append(key(), secret))
    run = [sys.executable, "-c", "from retentive.cli import main; raise SystemExit(main())", "--at"]
    for at, command in (("two", "backup"), ("three", "restore-backup")):
        subprocess.run([*run, str(tmp_path / at), "admin", command, str(tmp_path / "file.backup")], check=True)
    with retentive.open(tmp_path / "three") as place:
        assert asyncio.run(TranscriptStore(place).load(key())) == secret


def test_old_sessions_are_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr("retentive.claude_agent.time.time", lambda: now)
    with retentive.open("sqlite://") as place:
        store = TranscriptStore(place)
        asyncio.run(store.append(key(session_id="old"), entries(1)))
        asyncio.run(store.append(key(session_id="old", subpath="agents/1"), entries(1)))
        asyncio.run(store.append(key(session_id="used"), entries(1)))
        asyncio.run(store.append(key(session_id="main", subpath="agents/1"), entries(1)))
        now += 40 * 86_400
        asyncio.run(store.append(key(session_id="used", subpath="agents/1"), entries(1)))
        asyncio.run(store.append(key(session_id="main"), entries(1)))
        assert store.prune(30) == 1
        assert {each["session_id"] for each in asyncio.run(store.list_sessions("project"))} == {"used", "main"}
        assert asyncio.run(store.load(key(session_id="old", subpath="agents/1"))) is None


def test_what_cannot_work_is_refused() -> None:
    with retentive.open("sqlite://") as place, serving(place) as api:
        with (
            retentive.open(api.url, api_key=api.key) as remote,
            pytest.raises(errors.InvalidInput, match="that the server itself uses"),
        ):
            TranscriptStore(remote)
        with pytest.raises(errors.InvalidInput, match="must not be empty"):
            asyncio.run(TranscriptStore(place).load(key(subpath="")))
