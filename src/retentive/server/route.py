"""Routes of the API. A route is a function: its annotations are the fields of its query, its body and its answer.

The list of routes is used for routing, for the checks of fields and scopes, for the OpenAPI document, and in a test of
the isolation of workspaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal, TypeAlias, TypeVar, get_type_hints

from pydantic import create_model

from retentive.server.calls import Handler, Json, RouteCall
from retentive.wire.base import Answer, Fields
from retentive.wire.keys import Scope

Method: TypeAlias = Literal["GET", "POST", "DELETE"]
H = TypeVar("H", bound=Handler)
_NAMES = re.compile(r"\{(\w+)\}")
STORES = "/v1/memory_stores"
STORE = f"{STORES}/{{memory_store_id}}"
READ: tuple[Scope, ...] = ("read",)
WRITE: tuple[Scope, ...] = ("write",)
REVIEW: tuple[Scope, ...] = ("review",)
ERASE: tuple[Scope, ...] = ("erase",)
ADMIN: tuple[Scope, ...] = ("admin",)


@dataclass(frozen=True, slots=True)
class Route:
    """Route of the API: an HTTP method and a path, with the function that handles the requests.

    An API key needs one of the `scopes`. The handler gets a `RouteCall`, the `body`, and the fields of the query.
    """

    method: Method
    path: str
    scopes: tuple[Scope, ...]
    handler: Handler
    query: type[Fields] | None = None
    body: type[Fields] | None = None
    answer: type[Answer] | None = None
    """Model of the answer. None if the answer is a stream."""
    media_types: tuple[str, ...] = ()
    """Media types of a stream."""
    conflicts: bool = False
    """True if a response can have status 409."""
    upload: tuple[str, ...] = ()
    """Media types of the body if the body is a file.

    Such a body is streamed, so the size limit of JSON bodies does not apply.
    """
    is_long: bool = False
    """True if the handler may take minutes."""
    again: Callable[[RouteCall, Json], Json] | None = None
    """Set if the route does not change a memory store in one transaction, so that the location records its answer.

    The function completes the recorded answer of a repeated request with the secrets in it.
    """

    @property
    def path_names(self) -> tuple[str, ...]:
        """Names of the ids in the path."""
        return tuple(_NAMES.findall(self.path))

    @property
    def name(self) -> str:
        """Name of the operation, such as `create_memory`."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """First sentence of the documentation of the handler."""
        return str(self.handler.__doc__).partition("\n")[0].removesuffix(".")


class Routes(list[Route]):
    """Routes of one module, in the order of their functions."""

    def __call__(
        self, method: Method, path: str, scopes: tuple[Scope, ...], *media_types: str, **options: Any
    ) -> Callable[[H], H]:
        """Return a decorator that adds a route. `options` are fields of `Route`."""

        def add(handler: H) -> H:
            hints = get_type_hints(handler, include_extras=True)
            body, answer = hints.get("body"), None if media_types else hints["return"]
            fields: dict[str, Any] = {
                each.name: (hints[each.name], ... if each.default is each.empty else each.default)
                for each in signature(handler).parameters.values()
                if each.name not in {"call", "body"}
            }
            query = create_model(handler.__name__, __base__=Fields, **fields) if fields else None
            self.append(Route(method, path, scopes, handler, query, body, answer, media_types, **options))
            return handler

        return add
