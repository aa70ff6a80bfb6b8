"""Methods that are exchanges, and methods that no server offers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from retentive.errors import InvalidInput, RetentiveError
from retentive.remote.requests import HttpExchange, HttpRequest, JsonBody

P = ParamSpec("P")
T = TypeVar("T")
PAGE = 100


class Runs(Protocol):
    """Object with exchanges as methods. `_run` sends one, or returns it for the event loop to send.

    `default_sender` is the actor of requests that name no other.
    """

    default_sender: str | None

    def _run(self, exchange: HttpExchange[T], /) -> T: ...


R = TypeVar("R", bound=Runs)


def exchange(method: Callable[Concatenate[R, P], HttpExchange[T]]) -> Callable[Concatenate[R, P], T]:
    """Make an exchange a method that returns its result."""

    @wraps(method)
    def run(self: R, /, *args: P.args, **options: P.kwargs) -> T:
        return self._run(_sent_by(method(self, *args, **options), self.default_sender))

    return run


def _sent_by(found: HttpExchange[T], actor: str | None) -> HttpExchange[T]:
    """The exchange, with the actor in each request that names no other."""
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
    """A method or property that raises `InvalidInput`, because no route offers it."""

    def refuse(*_: object, **__: object) -> Any:
        raise no_route(name)

    return refuse


def no_route(name: str) -> InvalidInput:
    """The error for an operation that no route offers."""
    return InvalidInput(
        f"`{name}` is not possible with the URL of a server; open the location on the machine of the server"
    )


def pages(path: str, *, most: int | None = None, **query: object) -> HttpExchange[list[JsonBody]]:
    """All objects of a list, or the first `most`."""
    found: list[JsonBody] = []
    page: str | None = None
    while most is None or len(found) < most:
        limit = PAGE if most is None else min(PAGE, most - len(found))
        answer = yield HttpRequest("GET", path, {**query, "limit": limit, "page": page})
        found += answer["data"]
        page = answer["next_page"]
        if page is None:
            break
    return found
