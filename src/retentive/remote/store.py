"""Memory store on a server. It has the methods and types of a local memory store."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Unpack, cast

from retentive.engine.rendering import error_reply
from retentive.errors import InvalidInput, Refused, RetentiveError, error_of
from retentive.remote import objects
from retentive.remote.client import Client
from retentive.remote.core import RemoteCore
from retentive.remote.history import RemoteHistory
from retentive.remote.identified import RemoteById
from retentive.remote.methods import exchange, post, unsupported
from retentive.remote.reading import RemoteReads
from retentive.remote.requests import HttpExchange, JsonBody, T, conflicting_in
from retentive.remote.review import RemoteReview
from retentive.remote.trust import RemoteTrust
from retentive.store.by_id import ById
from retentive.values.commands import Clear, Command, parse, paths_of
from retentive.values.names import plain_name
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.properties import StoreInfo
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Actor, Written, as_actor
from retentive.values.replies import REPLIES, Replies, Reply
from retentive.wire.commands import BatchAnswer, CommandAnswer, written

if TYPE_CHECKING:
    from retentive.audit.reader import Audit
    from retentive.engine.core import StoreCore
    from retentive.history.history import History
    from retentive.review.session import Review
    from retentive.review.trust import Trust


class RemoteStore(RemoteReads):
    """Memory store on a server. Threads may share it.

    The methods of its copy `described` return exchanges instead of results. An event loop can run these exchanges.
    """

    def __init__(self, client: Client, info: StoreInfo, actor: Actor | None) -> None:
        self.client = client
        self.info = info
        self._actor = actor
        self.default_sender = None if actor is None else str(actor)
        self._run: Any = client.run
        self._core = cast("StoreCore", RemoteCore())

    def __repr__(self) -> str:
        return f"<RemoteStore {self.id} key={self.key!r}>"

    @property
    def described(self) -> RemoteStore:
        """Copy of the memory store. The methods of the copy return exchanges instead of results."""
        store = copy(self)
        store._run = _unchanged  # noqa: SLF001 - the same class
        return store

    @property
    def id(self) -> str:
        """Id of the memory store, such as `memstore_...`."""
        return self.info.id

    @property
    def key(self) -> str | None:
        """Key that the application gave to the memory store."""
        return self.info.key

    @property
    def name(self) -> str:
        """Display name."""
        return self.info.name

    @property
    def actor(self) -> Actor | None:
        """Actor of changes that name no other actor. None means the actor of the API key."""
        return self._actor

    @property
    def replies(self) -> Replies:
        """Texts for errors in arguments. The server uses its own texts for replies."""
        return REPLIES

    def acting_as(self, actor: Actor | str) -> RemoteStore:
        """Return a copy of this object. The copy sends `actor` with each request. The API key must permit the actor."""
        store = copy(self)
        store._actor = as_actor(actor)  # noqa: SLF001 - the same class
        store.default_sender = str(store._actor)  # noqa: SLF001
        return store

    def through(self, integration: str) -> RemoteStore:
        """Return this memory store unchanged. `retentive serve` records the integration `http` for every request."""
        return self

    def directory(self) -> str | None:
        """Return None, because the memories are on the server."""
        return None

    @exchange
    def execute(
        self,
        command: object,
        *,
        actor: Actor | str | None = None,
        tool_use_id: str | None = None,
        run: str | None = None,
        source: str | None = None,
        session: str | None = None,
    ) -> HttpExchange[Reply]:
        """Run a command, and return the reply of the server.

        `command` is a parsed command or the input of a tool call.
        """
        if tool_use_id is not None and not isinstance(tool_use_id, str):
            raise InvalidInput(f"a tool_use id must be a string, not {type(tool_use_id).__name__}")
        run = None if run is None else plain_name("a run", run)
        origin, sender = origin_of(source, session), self.sender(actor)
        try:
            answer = yield from self.performed(command, sender, tool_use_id, origin, run=run)
        except Refused as refusal:
            return error_reply(RemoteCore(), refusal)
        except RetentiveError as error:
            return error_reply(RemoteCore(), error, _named(command))
        return answer.reply()

    def clear(
        self,
        *,
        actor: Actor | str | None = None,
        tool_use_id: str | None = None,
        run: str | None = None,
        **origin: Unpack[Origin],
    ) -> Reply:
        """Delete all memories in one transaction. The arguments are those of `execute`."""
        return self.execute(Clear(), actor=actor, tool_use_id=tool_use_id, run=run, **origin)

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
        """Send a command, and return the answer of the server. Raises `Refused` if the command cannot be sent."""
        given = objects.sendable(command)
        body: JsonBody = {"command": given, "if_version": if_version, **(origin or {}), "id": tool_use_id}
        try:
            answer = yield from post(self, CommandAnswer, "/commands", body, actor, run=run)
        except InvalidInput:
            parse(given)  # raises for a value that the body of a request cannot hold
            raise
        return answer

    @exchange
    def answer(self, command: object, if_version: str | None = None) -> HttpExchange[CommandAnswer]:
        """Run a command, and return the whole answer of the server."""
        return (yield from self.performed(command, self.sender(), None, None, if_version))

    @exchange
    def _written(
        self, command: Command, if_version: str | None, actor: Actor | str | None, origin: Origin
    ) -> HttpExchange[Written]:
        done = yield from self.performed(command, self.sender(actor), None, origin_of(**origin), if_version)
        if done.is_error:
            raise _error(done)
        return written(done)

    @exchange
    def batch(
        self, commands: Sequence[object], *, actor: Actor | str | None = None, **origin: Unpack[Origin]
    ) -> HttpExchange[list[Written]]:
        """Run up to 100 commands as one atomic change. Return the result of each command."""
        body: JsonBody = {"commands": [objects.sendable(each) for each in commands], **origin_of(**origin)}
        return list(map(written, (yield from post(self, BatchAnswer, "/batch", body, actor)).results))

    @exchange
    def view(self, path: str = ROOT, *, view_range: tuple[int, int] | None = None) -> HttpExchange[str]:
        """Return the text that a model gets for a view of a directory or of the lines of a memory.

        Raises `NotFound`.
        """
        done = yield from self.performed({"command": "view", "path": path, "view_range": view_range}, self.sender())
        return done.reply().raise_for_error().text

    @property
    def by_id(self) -> ById:
        """Access to memories by id: read, update and delete."""
        return RemoteById(self)

    @property
    def history(self) -> History:
        """History of the memory store, as far as the server has routes for it."""
        return RemoteHistory(self)

    @property
    def review(self) -> Review:
        """Proposals by actors whose changes are reviewed."""
        return RemoteReview(self)

    @property
    def trust(self) -> Trust:
        """Trust in memories: list, confirm, quarantine and release."""
        return RemoteTrust(self)

    @property
    def audit(self) -> Audit:
        """Audit log: entries, and verification on the server."""
        from retentive.remote.auditing import RemoteAudit  # noqa: PLC0415 - rarely needed

        return RemoteAudit(self)

    read_only = unsupported("read_only")
    sweep = unsupported("sweep")
    scan = unsupported("scan")


def _unchanged(found: HttpExchange[T]) -> HttpExchange[T]:
    return found


def _named(command: object) -> tuple[MemoryPath, ...]:
    """Return the paths of a command, for an error reply."""
    try:
        return paths_of(command if isinstance(command, Command | Clear) else parse(command))
    except Refused:
        return (MemoryPath.known(ROOT),)


def _error(done: CommandAnswer) -> RetentiveError:
    found = error_of(done.content, done.error_code)
    found.conflicting = conflicting_in(dict(done))
    return found
