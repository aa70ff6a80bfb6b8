"""Public names: `dir`, and a one-line `repr` of every class without the text of a memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import retentive
from retentive import Mounts
from retentive.agent import Agent, AsyncAgent
from retentive.integrations.function_tool import FunctionTool
from retentive.integrations.search_tool import search_tool
from retentive.values.commands import parse
from support.commands import A, create, edit, insert

SECRET = "the words of a memory"
MAX_CHARS = 300


def test_importing_imports_no_other_module() -> None:
    """Each public name is imported at its first use. None of them needs an event loop, the SDK or rich."""
    code = """
import sys, retentive
first = [name for name in sys.modules if name.startswith("retentive.")]
assert retentive.open and retentive.MemoryStore and retentive.Mounts and retentive.tool_result and retentive.errors
heavy = {"asyncio", "anyio", "anthropic", "rich", "click", "email", "importlib.metadata", "urllib.request"}
print(*first, *sorted(heavy & {*sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def shown(tmp_path: Path) -> Iterator[Any]:
    """An object of every public class, with a text of a memory in it if it can have one."""
    with retentive.open(tmp_path / "m", actor="user:ann", review=["session:*"]) as opened:
        store = opened.store("key")
        mounts = Mounts({"/memories": store})
        yield from (opened, store, mounts)
        yield from (retentive.AsyncRetentive(opened), retentive.AsyncMemoryStore(store), retentive.AsyncMounts(mounts))
        yield store.create(A, f"{SECRET}\n")
        yield store.edit(A, SECRET, f"{SECRET} again")
        yield store.execute({"command": "view", "path": A})
        yield store.execute(edit(f"{SECRET} too"))
        yield from (parse(create(A, SECRET)), parse(edit(SECRET, SECRET)), parse(insert(0, SECRET)))
        yield from (store.load(A)[0], store.versions()[0], store.usage(), opened.stores()[0])
        results = store.search(SECRET)
        yield from (results, results.hits[0], results.hits[0].snippets[0])
        history = store.history
        yield from (history, store.review, store.trust, store.audit)
        yield from (history.blame(A)[0], *history.diff(store.versions()[1].id, store.versions()[0].id))
        store.create("/memories/b", SECRET, actor="session:s")
        yield from store.review.pending()
        yield from (history.undo(store.versions()[0].id), store.settings(), store.sweep(dry_run=True))
        yield from store.scan()
        for kind in (retentive.MemoryTool, retentive.AsyncMemoryTool):
            yield kind(store)
        for tool in (retentive.MemorySearchTool, retentive.AsyncMemorySearchTool):
            yield tool(store)
        for agent in (Agent, AsyncAgent):
            client: Any = object()
            yield agent(client, memory=store, messages=[{"role": "user", "content": SECRET}])
        yield search_tool(store)
        yield retentive.Actor("user", "ann")
        yield retentive.NotFound("there is no memory at /memories/x")


def test_every_public_class_has_a_short_repr(tmp_path: Path) -> None:
    seen = list(shown(tmp_path))
    for each in seen:
        text = repr(each)
        name = type(each).__name__
        assert SECRET not in text, name
        assert "\n" not in text, name
        assert vars(object)["__repr__"] is not type(each).__repr__, name
        assert name in text or is_dataclass(each), name
        assert len(text) <= MAX_CHARS or name not in retentive.__all__, (name, text)
    kinds = {type(each) for each in seen}
    public = {each for name in retentive.__all__ if isinstance(each := getattr(retentive, name), type)}
    errors = {each for each in public if issubclass(each, Exception)}
    assert public - errors <= kinds
    assert FunctionTool in kinds
