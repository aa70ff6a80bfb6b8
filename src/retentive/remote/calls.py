"""What the classes of this package share: methods that send requests, and the conversion of their arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from copy import copy
from dataclasses import fields
from datetime import datetime
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Self, TypeAlias, TypeVar, cast
from urllib.parse import quote

from retentive.engine.rendering import error_reply
from retentive.errors import InvalidInput, InvalidPath, Refused, RetentiveError, error_of
from retentive.history.revisions import Named, as_revision
from retentive.remote.client import Client, HttpRequest
from retentive.values.commands import Append, Clear, Command, Write, parse
from retentive.values.paths import MemoryPath
from retentive.values.records import Actor, as_actor
from retentive.values.replies import REPLIES, Reply
from retentive.wire.base import Answer, AnswerPage, api_path

if TYPE_CHECKING:
    from retentive.remote.store import RemoteStore

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A", bound=Answer)
JsonFields: TypeAlias = Mapping[str, object]
Who: TypeAlias = Actor | str | None
PAGE = 100


def like(
    own: Callable[Concatenate[Any, P], T],
) -> Callable[[Callable[..., Coroutine[Any, Any, T]]], Callable[Concatenate[Any, P], T]]:
    """Return a decorator that makes a method with the arguments, defaults and documentation of the method `own`.

    The decorated coroutine gets all arguments by name. The method runs it and returns its result, or returns the
    coroutine if the object is a `described` copy.
    """
    arguments = signature(own)
    rest = [each.name for each in arguments.parameters.values() if each.kind is Parameter.VAR_KEYWORD]

    def decorate(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
        @wraps(own)
        def run(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
            bound = arguments.bind(self, *args, **options)
            bound.apply_defaults()
            given = dict(list(bound.arguments.items())[1:])
            for name in rest:
                given |= given.pop(name)
            work = method(self, **given)
            if self.is_async:
                return cast("T", work)
            try:
                work.send(None)
            except StopIteration as done:
                result: T = done.value
                return result
            raise AssertionError("a call that blocks its thread was suspended")

        return run

    return decorate


def exchange(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Make a method of a coroutine, as `like` does, for a method that no local class has."""
    return like(cast("Callable[Concatenate[Any, P], T]", method))(method)


def unsupported(name: str) -> Any:
    """Return a stand-in for a method or property that has no route on servers. The stand-in raises `InvalidInput`."""

    def refuse(*_: object, **__: object) -> Any:
        raise no_route(f"`{name}`")

    return refuse


def no_route(name: str) -> InvalidInput:
    """Return the error for an operation that has no route on servers."""
    return InvalidInput(
        f"{name} is not available over HTTP; on the machine of the server, open the location that the server uses"
    )


class Remote:
    """Location or memory store on a server. `base` is the path of its routes.

    The methods of its copy `described` return coroutines instead of results, for `Client.run_async`.
    """

    client: Client
    base: str
    is_async = False
    _actor: Actor | None

    @property
    def described(self) -> Self:
        """Copy of the object. The methods of the copy return coroutines instead of results."""
        other = copy(self)
        other.is_async = True
        return other

    def through(self, integration: str) -> Self:
        """Return this object unchanged. `retentive serve` records the integration `http` for every request."""
        return self

    def sender(self, actor: Who = None) -> str | None:
        """Return the actor to send with a request, as text. Raises `InvalidInput`."""
        found = as_actor(actor) or self._actor
        return None if found is None else str(found)

    async def call(self, answer: type[A], method: str, path: str, actor: Who = None, **options: Any) -> A:
        """Send a request to a route below this object, and return its answer. `options` are fields of `HttpRequest`."""
        request = HttpRequest(method, self.base + path, answer, actor=self.sender(actor), **options)
        return await self.client.send(request, is_async=self.is_async)

    async def get(self, answer: type[A], path: str, query: JsonFields | None = None) -> A:
        """Read from a route below this object. Return its answer."""
        return await self.call(answer, "GET", path, query=query or {})

    async def post(
        self, answer: type[A], path: str, body: JsonFields | None = None, actor: Who = None, **options: Any
    ) -> A:
        """Send a change to a route below this object. Return its answer."""
        return await self.call(answer, "POST", path, actor, body=body, **options)

    async def pages(
        self, model: type[AnswerPage[T]], path: str, query: JsonFields | None = None, most: int | None = None
    ) -> list[T]:
        """Return all objects of a paged list, or the first `most` objects."""
        found: list[T] = []
        page: str | None = None
        while most is None or len(found) < most:
            limit = PAGE if most is None else min(PAGE, most - len(found))
            answer = await self.get(model, path, {**(query or {}), "limit": limit, "page": page})
            found += answer.data
            page = answer.next_page
            if page is None:
                break
        return found


class RemotePart:
    """Part of the interface of a memory store on a server, such as its history."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self.is_async = store.is_async

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._store.id}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name == "_context":
            raise no_route("this operation")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class RemoteCore:
    """Takes the place of `StoreCore`. It only checks arguments, and formats the errors that it finds.

    Methods that need storage raise `InvalidInput`.
    """

    def reject(self, error: RetentiveError, actor: Who = None) -> NoReturn:
        """Raise `error`. The server writes audit entries for the calls that reach it."""
        raise error

    def parsed(self, path: str) -> MemoryPath:
        """Parse a path that the caller passed as an argument. Raises `InvalidPath`."""
        return parsed(path)

    def redacted(self, text: str) -> str:
        """Return the text unchanged. The server has already masked sensitive values."""
        return text

    def refused(self, name: str | None, error: Refused, *, actor: Who = None) -> Reply:
        """Return the reply to a malformed tool call."""
        return error_reply(self, error)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise no_route("this operation")


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


def above(path: str) -> str:
    """Return the prefix of the directory that contains a path."""
    return sent_path(path).rpartition("/")[0] + "/"


def moment(at: Named) -> object:
    """Return a revision or a time as the server gets it. Raises `InvalidInput`."""
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
