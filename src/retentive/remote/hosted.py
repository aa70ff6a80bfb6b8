"""Anthropic's hosted memory stores, and other servers that have only the same routes.

These servers cannot run commands of the memory tool. The client first reads the memories that a command needs, and runs
the command on them with the handlers of the engine. It then sends each change with the hash of the text that was read.
If another client has changed the memory meanwhile, the server refuses the change and the command runs again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.handlers import RunCommand, RunView, Viewed
from retentive.engine.operation import CommandResult, Operation, Outcome
from retentive.engine.rendering import notes_of, paths_named, rendered
from retentive.errors import (
    AlreadyExists,
    Conflict,
    InvalidInput,
    NotADirectory,
    NotFound,
    OutcomeUnknown,
    Refused,
    RetentiveError,
)
from retentive.history.removal import Removed
from retentive.redaction.examiner import TextExaminer
from retentive.remote import objects
from retentive.remote.history import RemoteHistory
from retentive.remote.location import RemoteLocation
from retentive.remote.methods import exchange, get, no_route, pages, post, unsupported
from retentive.remote.requests import HttpExchange, HttpRequest, JsonBody, segment
from retentive.remote.store import RemoteStore
from retentive.storage.contract import Change, Created, Deleted, Imported, Moved, State, Updated
from retentive.values.commands import Append, Clear, Command, Delete, Rename, View, Write, parse, paths_of
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.properties import StoreInfo
from retentive.values.provenance import Origin
from retentive.values.records import (
    Actor,
    Entry,
    Invocation,
    Memory,
    Usage,
    as_actor,
)
from retentive.values.records import Operation as VersionOperation
from retentive.values.settings import DEFAULTS
from retentive.wire.base import Answer, api_path, tool_path
from retentive.wire.commands import CommandAnswer, CommandChange
from retentive.wire.memories import MemoryObject, MemoryPage
from retentive.wire.stores import StoreObject

if TYPE_CHECKING:
    from retentive.history.history import History

SETTINGS = DEFAULTS.changed({"max_memory_bytes": 102_400})
"""Default settings, with the maximum memory size of hosted memory stores."""
MAX_RUNS = 5
_FASTER = (Conflict, AlreadyExists, NotADirectory)


class HostedTree:
    """Copy of the memories that a command needs. The engine runs the command on it instead of on a storage snapshot."""

    state = State(0, None, None, None, Usage(0, 0))  # the client does not know the size of the memory store

    def __init__(self) -> None:
        self.known: dict[str, Memory] = {}
        self.data: dict[str, bytes] = {}

    def get(self, path: str) -> Entry:
        """Return the entry at a path."""
        above = next((each for each in ancestors(path) if each in self.known), None)
        below = any(each.startswith(f"{path}/") for each in self.known)
        return Entry(self.known.get(path), self.data.get(path), above, below)

    def list(self, under: str, *, limit: int | None = None) -> Iterator[tuple[Memory, None]]:
        """Return the memories below a path, in byte order of their paths."""
        paths = (path for path in sorted(self.known, key=str.encode) if path.startswith(f"{under}/"))
        return ((self.known[path], None) for path in islice(paths, limit))


class HostedStore(RemoteStore):
    """Memory store on a server that has only the routes of the hosted API."""

    def performed(
        self,
        command: object,
        actor: str | None = None,
        tool_use_id: str | None = None,
        origin: Origin | None = None,
        if_version: str | None = None,
        *,
        run: str | None = None,
    ) -> HttpExchange[CommandAnswer]:
        """Run a command in this process, and send its changes to the server.

        Raises `Refused` if the command is invalid.
        """
        if actor is not None or any((origin or {}).values()):
            raise no_route("setting the actor, source or session of a change")
        known = parsed_command(command)
        for _ in range(MAX_RUNS):
            tree = yield from self._tree(known)
            operation, outcome, changes = _run(known, tree, if_version)
            try:
                sent = yield from self._send(changes)
            except _FASTER:
                continue  # another client changed the memory; run the command on its new state
            except InvalidInput as error:  # the server refused the change, for example because the store is archived
                refused = Outcome[Any](SETTINGS, error=Refused("missing"))
                said = {"content": f"Error: {error}", "error_code": error.code}
                return self._result(operation, refused, []).model_copy(update=said)
            return self._result(operation, outcome, sent)
        raise Conflict("other clients kept changing the memory, so this command changed nothing; try again")

    def loaded(self, path: str) -> HttpExchange[tuple[Memory, str]]:
        """Return the memory at a path and its text. Raises `NotFound`."""
        target = objects.parsed(path)
        tree = yield from self._tree(View(target))
        memory = None if target.is_root else tree.known.get(target.text)
        if memory is None:
            raise NotFound(f"there is no memory at {target.written}")
        return memory, tree.data[memory.path].decode()

    def _tree(self, command: Command | Clear) -> HttpExchange[HostedTree]:
        tree, paths = HostedTree(), paths_of(command)
        for path in paths:
            yield from self._read(tree, path)
            memory = tree.known.get(path.text)
            if memory is not None and not isinstance(command, Delete | Rename | Clear):
                found = yield from get(self, MemoryObject, f"/memories/{segment(memory.id)}")
                tree.known[path.text] = found.memory()
                tree.data[path.text] = (found.content or "").encode()
        return tree

    def _read(self, tree: HostedTree, path: MemoryPath) -> HttpExchange[None]:
        """Read the memory at a path, or else a memory at one of its parent paths, or else all memories below the path.

        The directories are listed one level at a time, from the root down.
        """
        if path.is_root:
            yield from self._add_below(tree, path.text)
            return
        steps = [*ancestors(path.text), path.text]
        for above, step in zip([ROOT, *steps], steps, strict=False):
            prefix = above[len(ROOT) :] + "/"
            listed = yield from pages(self, "/memories", MemoryPage, path_prefix=prefix, depth=1)
            here = {tool_path(each.path): each for each in listed}
            if isinstance(at := here.get(step), MemoryObject):
                tree.known[step] = at.memory()
                return
            if f"{step}/" not in here:
                return
        yield from self._add_below(tree, path.text)

    def _add_below(self, tree: HostedTree, path: str) -> HttpExchange[None]:
        found = yield from self._below(MemoryPath.known(path))
        tree.known |= {memory.path: memory for memory in found}

    def _send(self, changes: Sequence[Change]) -> HttpExchange[list[CommandChange]]:
        """Send changes one by one, because the API has no transactions. Return what was changed."""
        sent: list[CommandChange] = []
        for change in changes:
            try:
                sent.append((yield from self._sent(change)))
            except RetentiveError as error:
                if not sent:
                    raise
                done = f"{len(sent)} of {len(changes)} memories were changed, one by one"
                raise OutcomeUnknown(f"{done}; then this error occurred: {error}") from None
        return sent

    def _sent(self, change: Change) -> HttpExchange[CommandChange]:
        match change:
            case Created(path, data):
                body: JsonBody = {"path": path[len(ROOT) :], "content": data.decode()}
                return _changed((yield from post(self, MemoryObject, "/memories", body, repeats=False)), "created")
            case Deleted(before):
                gone, condition = before.path[len(ROOT) :], {"expected_content_sha256": before.sha256}
                with suppress(NotFound):  # deleted by an attempt whose answer was lost, or by another client
                    yield HttpRequest("DELETE", f"{self.base}/memories/{segment(before.id)}", condition, repeats=True)
                return CommandChange(path=gone, memory_id=before.id, memory_version_id="", operation="deleted")
            case Updated(before, path) | Moved(before, path):
                content = None if change.data is None else change.data.decode()
                condition = {"type": "content_sha256", "content_sha256": before.sha256}
                body = {"content": content, "path": path[len(ROOT) :], "precondition": condition}
                url = f"/memories/{segment(before.id)}"
                return _changed((yield from post(self, MemoryObject, url, body)), "modified")
            case Imported():
                raise no_route("importing versions")

    def _result(self, operation: Operation[Any], outcome: Outcome[Any], sent: list[CommandChange]) -> CommandAnswer:
        """Return the answer that the command route of `retentive serve` would send."""
        core = StoreCore(cast("Any", None), self.info)
        reply, path = rendered(core, operation, outcome), paths_named(operation)[-1]
        result, error = outcome.result, outcome.error
        read, memory_id = result.memory if isinstance(result, Viewed) else None, None
        last = sent[-1] if len(sent) == 1 else None
        one_by_one = f"{len(sent)} memories were changed one by one, not in one transaction."
        version_id = result.version_id if isinstance(result, CommandResult) else ""
        if read is not None:
            memory_id, version_id = read.id, read.version_id
        elif last is not None:
            memory_id, version_id = last.memory_id, last.memory_version_id
        found = None if error is None else error.conflicting
        notes = notes_of(core, result) if isinstance(result, CommandResult) else ()
        return CommandAnswer(
            content=f"{reply.text}\n{one_by_one}" if len(sent) > 1 else reply.text,
            is_error=reply.is_error,
            error_code=reply.code,
            path=objects.api_path(path),
            memory_id=memory_id,
            memory_version_id=version_id,
            change_count=len(sent),
            changes=sent,
            notes=[*notes, *([one_by_one] if len(sent) > 1 else [])],
            conflicting_memory_id=None if found is None else found.memory_id,
            conflicting_path=None if found is None else api_path(found.path),
        )

    def sender(self, actor: Actor | str | None = None) -> str | None:
        """Return None, because the hosted API records the actor of the API key.

        Raises `InvalidInput` if `actor` is given.
        """
        if as_actor(actor) is not None:
            raise no_route("setting the actor of a change")
        return None

    @property
    def history(self) -> History:
        """Versions of the memories."""
        return HostedHistory(self)

    batch = unsupported("batch")
    search = unsupported("search")
    download = unsupported("export")
    upload = unsupported("import")
    usage = unsupported("usage")
    settings = unsupported("settings")
    change_settings = unsupported("change_settings")
    undo = unsupported("undo")
    undo_by = unsupported("undo_by")
    audit = property(unsupported("audit"))
    review = property(unsupported("review"))
    trust = property(unsupported("trust"))


class HostedHistory(RemoteHistory):
    """History of a hosted memory store: `log`, `redact`, `show` and `diff`.

    `show` and `diff` accept only version ids.
    """

    changes = unsupported("history.changes")
    differences = unsupported("history.differences")
    restore = unsupported("history.restore")
    undo = unsupported("history.undo")
    undo_by = unsupported("history.undo_by")
    undo_own = unsupported("history.undo_own")
    blame = unsupported("history.blame")

    @exchange
    def redact(
        self, version_ids: Sequence[str] = (), *, all_of: str | None = None, actor: Actor | str | None = None
    ) -> HttpExchange[Removed]:
        """Permanently remove the text, path, size and hash of versions. Sends one request for each version."""
        if all_of is not None:
            raise no_route("`redact` with `all_of`")
        for version_id in version_ids:
            yield from post(self._store, Answer, f"/memory_versions/{segment(version_id)}/redact", None, actor)
        return Removed(len(version_ids), pending=False)

    feed = unsupported("history.feed")
    newest = unsupported("history.newest")
    text_at = unsupported("history.text_at")
    erase = unsupported("history.erase")


class HostedLocation(RemoteLocation):
    """Location of hosted memory stores.

    A memory store can be opened only by its id. Only `create_store` creates memory stores.
    """

    def _store_of(self, info: StoreInfo) -> HostedStore:
        return HostedStore(self.client, info, None)

    repeats_creations = False
    upload = unsupported("import")

    def _found(self, id_or_key: str, workspace: str) -> HttpExchange[StoreObject | None]:
        if not id_or_key.startswith("memstore_"):
            raise InvalidInput(
                "a hosted memory store can be opened only by id (memstore_...); `create_store` creates a store"
            )
        try:
            return (yield from get(self, StoreObject, f"/{segment(id_or_key)}"))
        except NotFound:
            raise NotFound(f"there is no memory store {id_or_key!r}") from None


def _changed(found: MemoryObject, operation: VersionOperation) -> CommandChange:
    version_id = found.memory_version_id
    return CommandChange(path=found.path, memory_id=found.id, memory_version_id=version_id, operation=operation)


def parsed_command(command: object) -> Command | Clear:
    """Parse the input of a tool call, or a command that only applications may use. Raises `Refused`."""
    if isinstance(command, Command | Clear):
        return command
    name = command.get("command") if isinstance(command, Mapping) else None
    if name == "clear":
        return Clear()
    if isinstance(command, Mapping) and name in {"write", "append"}:
        path = MemoryPath.parse(str(command["path"]))
        return (Write if name == "write" else Append)(path, str(command["file_text"]))
    return parse(command)


def _run(
    command: Command | Clear, tree: HostedTree, if_version: str | None
) -> tuple[Operation[Any], Outcome[Any], Sequence[Change]]:
    """Run a command on the memories in `tree`.

    Return the operation, its outcome and the changes to make. A refusal is part of the outcome.
    """
    snapshot: Any = tree
    operation = RunView(command) if isinstance(command, View) else RunCommand(command, if_version)
    try:
        if isinstance(operation, RunView):
            return operation, Outcome(SETTINGS, operation.apply(snapshot, SETTINGS)), ()
        plan = operation.decide(snapshot, Guard(SETTINGS, None, TextExaminer(), present=snapshot, call=Invocation()))
        return operation, Outcome(SETTINGS, plan.result), plan.changes
    except Refused as refusal:
        return operation, Outcome(SETTINGS, error=refusal), ()
