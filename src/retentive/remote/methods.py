"""Decorator for methods that are exchanges, and stand-ins for methods that have no route on any server.

An exchange is a generator that yields requests and receives their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from retentive.errors import InvalidInput, RetentiveError
from retentive.remote.requests import HttpExchange, HttpRequest
from retentive.values.records import Actor
from retentive.wire.base import Answer, AnswerPage

if TYPE_CHECKING:
    from retentive.remote.store import RemoteStore

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A", bound=Answer)
PAGE = 100


class Runs(Protocol):
    """Object whose methods are exchanges.

    `_run` runs an exchange, or returns the exchange so that an event loop can run it. `default_sender` is the actor of
    requests that name no actor.
    """

    default_sender: str | None

    def _run(self, exchange: HttpExchange[T], /) -> T: ...


R = TypeVar("R", bound=Runs)


def exchange(method: Callable[Concatenate[R, P], HttpExchange[T]]) -> Callable[Concatenate[R, P], T]:
    """Turn a method that returns an exchange into a method that runs the exchange and returns its result.

    An exchange is a generator that yields requests and receives their answers.
    """

    @wraps(method)
    def run(self: R, /, *args: P.args, **options: P.kwargs) -> T:
        return self._run(_sent_by(method(self, *args, **options), self.default_sender))

    return run


def _sent_by(found: HttpExchange[T], actor: str | None) -> HttpExchange[T]:
    """Return the exchange, with `actor` added to each request that names no actor."""
    try:
        request = next(found)
        while True:
            try:
                answer = yield replace(request, actor=request.actor or actor)
            except RetentiveError as error:
                request = found.throw(error)
            else:
                request = found.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


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


class Place(Protocol):
    """Memory store or location on a server. `base` is the path of its routes."""

    @property
    def base(self) -> str: ...  # noqa: D102

    def sender(self, actor: Actor | str | None = None, /) -> str | None:
        """Return the actor to send with a request, as text. Raises `InvalidInput`."""


def get(place: Place, answer: type[A], path: str, query: Mapping[str, object] | None = None) -> HttpExchange[A]:
    """Read from a route below `place`. Return its answer."""
    found: A = yield HttpRequest("GET", place.base + path, query or {}, actor=place.sender(), answer=answer)
    return found


def post(
    place: Place,
    answer: type[A],
    path: str,
    body: Mapping[str, object] | None = None,
    actor: Actor | str | None = None,
    **options: Any,
) -> HttpExchange[A]:
    """Send a change to a route below `place`. Return its answer. `options` are fields of `HttpRequest`."""
    given = {"repeats": True, **options}
    found: A = yield HttpRequest(
        "POST", place.base + path, body=body, actor=place.sender(actor), answer=answer, **given
    )
    return found


class RemotePart:
    """Part of the interface of a memory store on a server, such as its history."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._run: Any = store._run  # noqa: SLF001 - the same exchange mode
        self.default_sender = store.default_sender

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._store.id}>"


def pages(
    place: Place, path: str, model: type[AnswerPage[T]], *, most: int | None = None, **query: object
) -> HttpExchange[list[T]]:
    """Return all objects of a paged list, or the first `most` objects."""
    found: list[T] = []
    page: str | None = None
    while most is None or len(found) < most:
        limit = PAGE if most is None else min(PAGE, most - len(found))
        answer = yield from get(place, model, path, {**query, "limit": limit, "page": page})
        found += answer.data
        page = answer.next_page
        if page is None:
            break
    return found
