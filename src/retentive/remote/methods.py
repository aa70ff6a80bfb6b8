"""Decorator for methods that are exchanges, and stand-ins for methods that have no route on any server.

An exchange is a generator that yields requests and receives their answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from retentive.errors import InvalidInput, RetentiveError
from retentive.remote.requests import HttpExchange, HttpRequest
from retentive.wire.base import AnswerPage

P = ParamSpec("P")
T = TypeVar("T")
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


def pages(path: str, model: type[AnswerPage[T]], *, most: int | None = None, **query: object) -> HttpExchange[list[T]]:
    """Return all objects of a paged list, or the first `most` objects."""
    found: list[T] = []
    page: str | None = None
    while most is None or len(found) < most:
        limit = PAGE if most is None else min(PAGE, most - len(found))
        answer: AnswerPage[T] = yield HttpRequest("GET", path, {**query, "limit": limit, "page": page}, answer=model)
        found += answer.data
        page = answer.next_page
        if page is None:
            break
    return found
