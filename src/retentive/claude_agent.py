"""Integration for the Claude Agent SDK.

`memory_server` creates the memory tools. `TranscriptStore` is a session store of the SDK: it saves the transcripts of
sessions, so that they can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from retentive import aio
from retentive.values.extras import pip_install

try:
    from claude_agent_sdk import McpSdkServerConfig, fold_session_summary
except ImportError as error:
    raise ImportError(f"this module needs the Claude Agent SDK: {pip_install('claude-agent', 'mcp')}") from error


from retentive.errors import InvalidInput
from retentive.integrations.documents import acting
from retentive.integrations.memory import ActorLike, MemoryLocation, open_memory
from retentive.mcp.service import McpService
from retentive.mcp.stdio import fixed_target
from retentive.opening import Retentive
from retentive.remote import is_remote
from retentive.store import MemoryStore, core_of
from retentive.values.records import TRANSCRIPT, TRANSCRIPT_PART

if TYPE_CHECKING:
    from claude_agent_sdk import SessionKey, SessionStoreEntry, SessionStoreListEntry, SessionSummaryEntry
    from claude_agent_sdk.types import SessionListSubkeysKey

    from retentive.storage.contract import Snapshot, Transaction

T = TypeVar("T")
DEFAULT_STORE = "transcripts"
MOST_PART_CHARS = 262_144
"""Maximum length of a transcript record. A longer append is split into several records; no entry is split."""
MOST_REMEMBERED = 200
"""Number of transcripts whose entry ids each `TranscriptStore` keeps in memory."""


def memory_server(
    memory: MemoryLocation | MemoryStore, *, store: str | None = None, actor: ActorLike = None, one_tool: bool = False
) -> McpSdkServerConfig:
    """Create the memory tools as an MCP server in this process, for `ClaudeAgentOptions(mcp_servers={"memory": ...})`.

    The tools are the same as those of `retentive mcp`: one tool for each command, or, if `one_tool` is true, a single
    tool for all commands. Allow them with `allowed_tools=["mcp__memory"]`. `memory` is an open memory store or a
    location. For a location, `store` is the key or id of the memory store to open. Changes are recorded with `actor`.
    Raises `InvalidInput` and storage errors.
    """
    opened = acting(open_memory(memory, store, method="search")[0], "claude_agent", actor)
    return {"type": "sdk", "name": "memory", "instance": McpService(fixed_target(opened, one_tool=one_tool)).server()}


@dataclass(frozen=True, slots=True)
class _Head:
    """Main record of a transcript. The entries of the transcript are in other records.

    `parts` is the number of these other records. `begun` and `last` are random tokens. `begun` identifies the first
    append to the transcript, and `last` identifies the newest append.
    """

    project_key: str
    session_id: str
    subpath: str | None
    parts: int = 0
    mtime: int = 0
    begun: str = ""
    last: str = ""
    summary: dict[str, Any] | None = None


@dataclass(slots=True)
class _Seen:
    """Ids of the entries that the first `parts` records of a transcript contain.

    `begun` is the random token of the first append. The token changes if the transcript is deleted and created again.
    """

    begun: str
    parts: int
    uuids: set[str]


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
        self._core = core_of(opened.store(store, name="Transcripts of the Claude Agent SDK"))
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._lock = Lock()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries to a transcript, in their order. Returns when the entries are durable."""
        await aio.in_thread(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries of a transcript. Returns None if the transcript is unknown."""
        return await aio.in_thread(self._read, partial(_load, name=_name(key)))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project. `mtime` is the time of the newest append, in Unix milliseconds."""
        heads = await aio.in_thread(self._read, partial(_heads, below=_digest(project_key)))
        return [{"session_id": each.session_id, "mtime": each.mtime} for each in heads if each.subpath is None]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries of the sessions of a project, as made by the SDK's `fold_session_summary`."""
        heads = await aio.in_thread(self._read, partial(_heads, below=_digest(project_key)))
        return [cast("SessionSummaryEntry", each.summary) for each in heads if each.summary is not None]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript. If it is the transcript of a session, delete the transcripts of its agents too."""
        below = _name(key) if key.get("subpath") is not None else _session(key)
        await aio.in_thread(self._write, partial(_delete, below=below))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session: one for the transcript of each of its agents."""
        heads = await aio.in_thread(self._read, partial(_heads, below=_session(key)))
        return [each.subpath for each in heads if each.subpath is not None]

    def prune(self, older_than_days: float) -> int:
        """Delete the sessions without an append in the last `older_than_days` days. Return how many were deleted."""
        before = int((time.time() - older_than_days * 86_400) * 1_000)
        return self._write(partial(_prune, before=before))

    def _append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        if not entries:
            return
        name, token, now = _name(key), secrets.token_hex(8), int(time.time() * 1_000)
        with self._lock:
            known = self._seen.get(name, _Seen("", 0, set()))
        found, added = self._write(partial(_add, key=key, entries=entries, token=token, now=now, known=known))
        with self._lock:
            found.uuids |= added
            self._seen[name] = found
            self._seen.move_to_end(name)
            while len(self._seen) > MOST_REMEMBERED:
                self._seen.popitem(last=False)

    def _read(self, work: Callable[[Snapshot], T]) -> T:
        return self._core.backend.read(self._core.id, work)

    def _write(self, work: Callable[[Transaction], T]) -> T:
        return self._core.backend.write(self._core.id, work)


def _add(
    tx: Transaction, *, key: SessionKey, entries: Sequence[SessionStoreEntry], token: str, now: int, known: _Seen
) -> tuple[_Seen, set[str]]:
    """Add new entries to a transcript. Return the ids of its earlier entries, and the ids of the added entries.

    The transaction may run again after a commit whose reply was lost. The second run finds its own `token` and adds
    nothing. The ids of added entries are returned separately, because they are not committed yet.
    """
    name = _name(key)
    present = tx.get_record(TRANSCRIPT, name)
    head = _Head(key["project_key"], key["session_id"], key.get("subpath"), begun=token)
    head = head if present is None else _head(present)
    seen = _seen(tx, name, head, known)
    if head.last == token:
        return seen, set()
    added: set[str] = set()
    new = list(_new(entries, seen.uuids, added))
    parts = _parts(new)
    for number, text in enumerate(parts, start=head.parts + 1):
        tx.put_record(TRANSCRIPT_PART, f"{name}/{number:08}", text)
    mtime = max(now, head.mtime + 1)
    summary = None
    if head.subpath is None:
        kept = cast("SessionSummaryEntry | None", head.summary)
        summary = {**fold_session_summary(kept, key, new), "mtime": mtime}
    after = replace(head, parts=head.parts + len(parts), mtime=mtime, last=token, summary=summary)
    tx.put_record(TRANSCRIPT, name, json.dumps(asdict(after)))
    return _Seen(head.begun, after.parts, seen.uuids), added


def _seen(snapshot: Snapshot, name: str, head: _Head, known: _Seen) -> _Seen:
    """Return the ids of all entries of a transcript.

    `known` already has the ids of the entries in the first `known.parts` records, so only later records are read.
    """
    if known.begun != head.begun or known.parts > head.parts:
        known = _Seen(head.begun, 0, set())
    for text in _texts(snapshot, name, after=known.parts) if known.parts < head.parts else ():
        known.uuids |= {each["uuid"] for each in _entries(text) if isinstance(each.get("uuid"), str)}
    return _Seen(head.begun, head.parts, known.uuids)


def _new(entries: Sequence[SessionStoreEntry], known: set[str], added: set[str]) -> Iterator[SessionStoreEntry]:
    for entry in entries:
        uuid = entry.get("uuid")
        if not isinstance(uuid, str):
            yield entry
        elif uuid not in known and uuid not in added:
            added.add(uuid)
            yield entry


def _load(snapshot: Snapshot, *, name: str) -> list[SessionStoreEntry] | None:
    if snapshot.get_record(TRANSCRIPT, name) is None:
        return None
    return [entry for text in _texts(snapshot, name) for entry in _entries(text)]


def _heads(snapshot: Snapshot, *, below: str) -> list[_Head]:
    found: list[_Head] = []
    for name, text in snapshot.records(TRANSCRIPT, after=below):
        if not name.startswith(below):
            break
        found.append(_head(text))
    return found


def _delete(tx: Transaction, *, below: str) -> None:
    for kind in (TRANSCRIPT, TRANSCRIPT_PART):
        names: list[str] = []
        for name, _ in tx.records(kind, after=below[:-1]):
            if name.startswith(below):
                names.append(name)
            elif name > below:
                break
        for name in names:
            tx.put_record(kind, name, None)


def _prune(tx: Transaction, *, before: int) -> int:
    newest: dict[str, int] = {}
    for name, text in tx.records(TRANSCRIPT):
        session = name.rpartition(".")[0] + "."
        newest[session] = max(newest.get(session, 0), _head(text).mtime)
    old = [session for session, mtime in newest.items() if mtime < before]
    for session in old:
        _delete(tx, below=session)
    return len(old)


def _texts(snapshot: Snapshot, name: str, *, after: int = 0) -> Iterator[str]:
    for key, text in snapshot.records(TRANSCRIPT_PART, after=f"{name}/{after:08}"):
        if not key.startswith(f"{name}/"):
            return
        yield text


def _parts(entries: Sequence[SessionStoreEntry]) -> list[str]:
    """Convert entries to JSON lines, and join the lines into texts of at most `MOST_PART_CHARS` characters.

    A longer entry gets a text of its own. The lines are ASCII, because an entry may contain a lone surrogate, which
    JSON can escape but UTF-8 cannot encode.
    """
    parts: list[str] = []
    for line in (json.dumps(each, ensure_ascii=True) for each in entries):
        if not parts or len(parts[-1]) + len(line) > MOST_PART_CHARS:
            parts.append("")
        parts[-1] += f"{line}\n"
    return parts


def _entries(text: str) -> list[SessionStoreEntry]:
    return [json.loads(line) for line in text.splitlines()]


def _head(text: str) -> _Head:
    return _Head(**json.loads(text))


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
