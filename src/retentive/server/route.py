"""Row in the table of routes.

The table is used for routing, for the checks of fields and scopes, for the OpenAPI document, and in a test of the
isolation of workspaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from retentive.server.calls import Handler, Json, RouteCall
from retentive.server.fields import Field
from retentive.server.keys import Scope

Method: TypeAlias = Literal["GET", "POST", "DELETE"]
_NAMES = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """Route of the API: an HTTP method and a path, with the function that handles the requests.

    An API key needs one of the `scopes`. The handler gets a `RouteCall` and one argument for each field. `answer` is
    the name of the response's schema, or `list:NAME` for a page of objects with the schema NAME, or `stream:TYPE` for a
    stream with the media type TYPE.
    """

    method: Method
    path: str
    scopes: tuple[Scope, ...]
    handler: Handler
    answer: str
    summary: str
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] = ()
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
