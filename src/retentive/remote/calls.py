"""What the classes of this package share: requests, and the conversion of the arguments of methods."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Self, TypeAlias, TypeVar
from urllib.parse import quote

from retentive.engine.rendering import error_reply
from retentive.errors import InvalidInput, InvalidPath, NotFound, Refused, RetentiveError, error_of
from retentive.history.revisions import Named, as_revision
from retentive.redaction.examiner import TextExaminer
from retentive.remote.client import Client
from retentive.store import core_of
from retentive.values.commands import Append, Clear, Command, Write, parse
from retentive.values.paths import MemoryPath
from retentive.values.properties import StoreInfo
from retentive.values.records import Actor, as_actor
from retentive.values.replies import REPLIES, Reply
from retentive.values.settings import DEFAULTS
from retentive.wire.base import Answer, AnswerPage, api_path

if TYPE_CHECKING:
    from retentive.remote.store import RemoteStore

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A", bound=Answer)
JsonFields: TypeAlias = Mapping[str, object]
Who: TypeAlias = Actor | str | None
PAGE = 100
EXAMINER = TextExaminer()


def like(
    own: Callable[Concatenate[Any, P], T],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """Return a decorator that makes a method with the arguments, defaults and documentation of the method `own`.

    The decorated function gets all arguments by name.
    """
    arguments = signature(own)
    rest = [each.name for each in arguments.parameters.values() if each.kind is Parameter.VAR_KEYWORD]

    def decorate(method: Callable[..., T]) -> Callable[Concatenate[Any, P], T]:
        @wraps(own)
        def run(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
            bound = arguments.bind(self, *args, **options)
            bound.apply_defaults()
            given = dict(list(bound.arguments.items())[1:])
            for name in rest:
                given |= given.pop(name)
            return method(self, **given)

        return run

    return decorate


def no_route(name: str = "this operation") -> InvalidInput:
    """Return the error for an operation that has no route on servers."""
    return InvalidInput(
        f"{name} is not available over HTTP; on the machine of the server, open the location that the server uses"
    )


class Remote:
    """Location or memory store on a server. `base` is the path of its routes."""

    client: Client
    base: str
    is_on_server = True

    def _by(self) -> Actor | None:
        """Return the actor of calls that name no other actor. None means the actor of the API key."""
        raise NotImplementedError

    def through(self, integration: str) -> Self:
        """Return this object unchanged. `retentive serve` records the integration `http` for every request."""
        return self

    def call(
        self, answer: type[A], method: str, path: str, actor: Who = None, *, missing: str = "", **options: Any
    ) -> A:
        """Send a request to a route below this object, and return its answer. `options` are those of `Client.call`.

        `missing` is the message of the error if the object of the route does not exist.
        """
        by = as_actor(actor) or self._by()
        options["actor"] = None if by is None else str(by)
        try:
            return self.client.call(answer, method, self.base + path, **options)
        except NotFound as error:
            raise NotFound(missing) if missing and "store" not in str(error) else error from None

    def get(self, answer: type[A], path: str, query: JsonFields | None = None, *, missing: str = "") -> A:
        """Read from a route below this object. Return its answer."""
        return self.call(answer, "GET", path, query=query, missing=missing)

    def post(self, answer: type[A], path: str, body: JsonFields | None = None, actor: Who = None, **options: Any) -> A:
        """Send a change to a route below this object. Return its answer."""
        return self.call(answer, "POST", path, actor, body=body, **options)

    def pages(
        self, model: type[AnswerPage[T]], path: str, query: JsonFields | None = None, most: int | None = None
    ) -> Iterator[T]:
        """Yield all objects of a paged list, or the first `most` objects. A page is read when it is needed."""
        page: str | None = ""
        while page is not None and most != 0:
            limit = PAGE if most is None else min(PAGE, most)
            answer = self.get(model, path, {**(query or {}), "limit": limit, "page": page or None})
            yield from answer.data
            page, most = answer.next_page, None if most is None else most - len(answer.data)


class RemotePart:
    """Part of the interface of a memory store on a server, such as its history."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._context = core_of(store)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._store.id}>"


@dataclass(frozen=True)
class RemoteCore:
    """Takes the place of `StoreCore`. It only checks arguments, and formats the errors that it finds.

    Attributes and methods that need storage raise `InvalidInput`.
    """

    info: StoreInfo
    actor: Actor | None
    pins: Mapping[str, object] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Id of the memory store."""
        return self.info.id

    def with_options(self, **options: Any) -> RemoteCore:
        """Return the core of a store with another actor in its requests, which the API key must permit, or read-only.

        Other settings cannot be pinned.
        """
        return replace(self, **options)

    def reject(self, error: RetentiveError, actor: Who = None) -> NoReturn:
        """Raise `error`. The server writes audit entries for the calls that reach it."""
        raise error

    def parsed(self, path: str) -> MemoryPath:
        """Parse a path that the caller passed as an argument. Raises `InvalidPath`."""
        return parsed(path)

    def redacted(self, text: str) -> str:
        """Return `text` with its sensitive values masked, as with the default settings.

        The server has masked what it answers; this is for replies to commands that never reach it.
        """
        try:
            return EXAMINER(DEFAULTS, text)[0]
        except Refused:  # a detector failed, and has logged this
            return "…"

    def refused(self, name: str | None, error: Refused, *, actor: Who = None) -> Reply:
        """Return the reply to a malformed tool call."""
        return error_reply(self, error)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise no_route()


def segment(name: str) -> str:
    """Quote an id for use as one segment of a URL path."""
    return quote(name, safe="")


def parsed(path: str) -> MemoryPath:
    """Parse a path that the caller passed as an argument. Raises `InvalidPath`."""
    if not isinstance(path, str):
        raise InvalidPath(f"a path must be a string such as /memories/notes.md, not {type(path).__name__}")
    try:
        return MemoryPath.parse(path)
    except Refused as refusal:
        said = REPLIES.error(refusal.key, refusal.values)
        raise error_of(said.text, said.code) from None


def sent_path(path: str) -> str:
    """Return an argument as the path that the API uses: `/x` for `/memories/x`, and `/` for the root."""
    return api_path(parsed(path).text)


def prefix(path: str) -> str:
    """Return the prefix that all paths below a directory have in the API."""
    return sent_path(path).rstrip("/") + "/"


def moment(at: Named | None) -> object:
    """Return a revision or a time as the server gets it. Raises `InvalidInput`."""
    if at is None:
        return None
    found = as_revision(at)
    return found.base if isinstance(found.base, datetime) else found.text


def sendable(command: object) -> object:
    """Return a command in a form that can be sent as JSON. Raises `Refused` if the input of a model cannot be sent."""
    if not isinstance(command, Command | Clear):
        try:
            json.dumps(command, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError):
            command = parse(command)
        else:
            return command
    given = {each.name: getattr(command, each.name) for each in fields(command)}
    plain = {name: value.written if isinstance(value, MemoryPath) else value for name, value in given.items()}
    if isinstance(command, Write | Append):
        plain["file_text"] = plain.pop("text")
    return {"command": command.name, **plain}
