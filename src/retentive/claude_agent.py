"""Integration for the Claude Agent SDK.

`memory_server` creates the memory tools. `TranscriptStore` is a session store of the SDK: it saves the transcripts of
sessions, so that they can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from retentive import aio
from retentive.values.extras import pip_install

try:
    from claude_agent_sdk import McpSdkServerConfig, fold_session_summary
except ImportError as error:
    raise ImportError(f"this module needs the Claude Agent SDK: {pip_install('claude-agent', 'mcp')}") from error


from retentive.errors import InvalidInput
from retentive.integrations.memory import ActorLike, MemoryLocation, acting, open_store, unwrapped
from retentive.mcp.stdio import service_of
from retentive.mounts import Mounts, StoreOrMounts, stores_of, tree_of
from retentive.opening import Retentive
from retentive.remote import is_remote
from retentive.store import MemoryStore, core_of

if TYPE_CHECKING:
    from claude_agent_sdk import SessionKey, SessionStoreEntry, SessionStoreListEntry, SessionSummaryEntry
    from claude_agent_sdk.types import SessionListSubkeysKey

    from retentive.storage.contract import Snapshot, Transaction

DEFAULT_STORE = "transcripts"
TRANSCRIPT, ENTRY = "transcript", "transcript.entry"  # kinds of records


def memory_server(
    memory: MemoryLocation | MemoryStore | Mounts,
    *,
    store: str | None = None,
    actor: ActorLike = None,
    one_tool: bool = False,
) -> McpSdkServerConfig:
    """Create the memory tools as an MCP server in this process, for `ClaudeAgentOptions(mcp_servers={"memory": ...})`.

    The tools are the same as those of `retentive mcp`: one tool for each command, or, if `one_tool` is true, a single
    tool for all commands. Allow them with `allowed_tools=["mcp__memory"]`. `memory` is an open memory store,
    mounts, or a location. For a location, `store` is the key or id of the memory store to open. Changes are
    recorded with `actor`. Raises `InvalidInput` and storage errors.
    """
    tree: StoreOrMounts
    if isinstance(found := unwrapped(memory), Mounts) and store is None:
        stores = stores_of(found).items()
        tree = tree_of({point: acting(each, "claude_agent", actor) for point, each in stores})
    else:
        tree = open_store(memory, store, "claude_agent", actor)  # type: ignore[arg-type]  # refuses mounts with `store`
    return {"type": "sdk", "name": "memory", "instance": service_of(tree, one_tool=one_tool).server()}


class TranscriptStore:
    """Session store (`SessionStore`) of the Claude Agent SDK that keeps transcripts in a location.

    Transcripts are records of a separate memory store, so models and searches do not see them. They are encrypted and
    backed up like memories. They have no history, and guards do not check them. Each append is one durable
    transaction. An entry whose `uuid` is already in the transcript is not added again. `prune` deletes old transcripts.
    Threads and processes may share the session store.
    """

    def __init__(self, opened: Retentive, *, store: str = DEFAULT_STORE) -> None:
        """Save transcripts in the memory store with the key `store`. The store is created if it does not exist.

        Raises `InvalidInput` if `opened` is a connection to a server, because a server has no routes for transcripts.
        """
        if is_remote(opened):
            raise InvalidInput(
                "transcripts cannot be saved through a server; open the location that the server itself uses"
            )
        core = core_of(opened.store(store, name="Transcripts of the Claude Agent SDK"))
        self._read, self._write = partial(core.backend.read, core.id), partial(core.backend.write, core.id)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries to a transcript, in their order. Returns when the entries are durable."""
        if entries:
            await aio.in_thread(self._write, partial(_add, key=key, entries=entries, now=int(time.time() * 1_000)))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries of a transcript. Returns None if the transcript is unknown."""
        return await aio.in_thread(self._read, partial(_load, name=_name(key)))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project. `mtime` is the time of the newest append, in Unix milliseconds."""
        heads = await aio.in_thread(self._read, partial(_heads, below=_digest(project_key)))
        return [{"session_id": each["session_id"], "mtime": each["mtime"]} for each in heads if each["subpath"] is None]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of the sessions of a project, as made by the SDK's `fold_session_summary`."""
        heads = await aio.in_thread(self._read, partial(_heads, below=_digest(project_key)))
        return [each["summary"] for each in heads if each["summary"] is not None]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript. If it is the transcript of a session, delete the transcripts of its agents too."""
        below = _name(key) if key.get("subpath") is not None else _session(key)
        await aio.in_thread(self._write, partial(_delete, below=below))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session: one for the transcript of each of its agents."""
        heads = await aio.in_thread(self._read, partial(_heads, below=_session(key)))
        return [each["subpath"] for each in heads if each["subpath"] is not None]

    def prune(self, older_than_days: float) -> int:
        """Delete the sessions without an append in the last `older_than_days` days. Return how many were deleted."""
        before = int((time.time() - older_than_days * 86_400) * 1_000)
        return self._write(partial(_prune, before=before))


def _add(tx: Transaction, *, key: SessionKey, entries: Sequence[SessionStoreEntry], now: int) -> None:
    """Add new entries to a transcript. An entry with a `uuid` is a record whose key has a digest of it.

    The main record of the transcript has its key, the number of its entries, the time of the last and the summary.
    """
    name = _name(key)
    present = tx.get_record(TRANSCRIPT, name)
    head: dict[str, Any] = {"entries": 0, "mtime": 0, "summary": None} if present is None else json.loads(present)
    new: list[SessionStoreEntry] = []
    for entry in entries:
        number, uuid = head["entries"] + len(new), entry.get("uuid")
        record = f"{name}/{_digest(uuid, '') if isinstance(uuid, str) else f'{number:012}'}"
        if tx.get_record(ENTRY, record) is None:
            tx.put_record(ENTRY, record, json.dumps([number, entry]))  # ASCII, because it may have a lone surrogate
            new.append(entry)
    mtime, subpath = max(now, head["mtime"] + 1), key.get("subpath")
    summary = {**fold_session_summary(head["summary"], key, new), "mtime": mtime} if subpath is None else None
    named = {"project_key": key["project_key"], "session_id": key["session_id"], "subpath": subpath}
    after = {**named, "entries": head["entries"] + len(new), "mtime": mtime, "summary": summary}
    tx.put_record(TRANSCRIPT, name, json.dumps(after))


def _load(snapshot: Snapshot, *, name: str) -> list[SessionStoreEntry] | None:
    if snapshot.get_record(TRANSCRIPT, name) is None:
        return None
    numbered = [json.loads(text) for _, text in _records(snapshot, ENTRY, f"{name}/")]
    return [entry for _, entry in sorted(numbered, key=itemgetter(0))]


def _records(snapshot: Snapshot, kind: str, prefix: str) -> Iterator[tuple[str, str]]:
    for name, text in snapshot.records(kind, after=prefix[:-1]):
        if name.startswith(prefix):
            yield name, text
        elif name > prefix:
            return


def _heads(snapshot: Snapshot, *, below: str) -> list[dict[str, Any]]:
    return [json.loads(text) for _, text in _records(snapshot, TRANSCRIPT, below)]


def _delete(tx: Transaction, *, below: str) -> None:
    for kind in (TRANSCRIPT, ENTRY):
        for name in [name for name, _ in _records(tx, kind, below)]:
            tx.put_record(kind, name, None)


def _prune(tx: Transaction, *, before: int) -> int:
    newest: dict[str, int] = {}
    for name, text in tx.records(TRANSCRIPT):
        session = name.rpartition(".")[0] + "."
        newest[session] = max(newest.get(session, 0), json.loads(text)["mtime"])
    old = [session for session, mtime in newest.items() if mtime < before]
    for session in old:
        _delete(tx, below=session)
    return len(old)


def _name(key: SessionKey) -> str:
    """Return the key of the records of a transcript.

    The result is made of hashes, because the parts of `key` may be any text.

    Raises `InvalidInput` for an empty subpath.
    """
    subpath = key.get("subpath")
    if subpath == "":
        raise InvalidInput("the subpath of a transcript must not be empty; omit it for the transcript of the session")
    return _session(key) + ("" if subpath is None else _digest(subpath, ""))


def _session(key: SessionKey | SessionListSubkeysKey) -> str:
    return _digest(key["project_key"]) + _digest(key["session_id"])


def _digest(text: str, end: str = ".") -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32] + end
