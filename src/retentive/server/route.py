"""A row of the table of routes. Routing, field checks, scopes, the OpenAPI document and an isolation test use it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from retentive.server.calls import Handler
from retentive.server.fields import Field
from retentive.server.keys import Scope

Method: TypeAlias = Literal["GET", "POST", "DELETE"]
_NAMES = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """One route. The key needs one of its `scopes`. The handler gets the `RouteCall` and an argument for each field.

    `answer` names the schema of the answer. After `list:` it names the schema of the items of a page, after `stream:`
    the media types of a stream.
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
    """True if the route may answer 409."""
    upload: tuple[str, ...] = ()
    """Media types of a body that is a file. The body is streamed, and the limit of JSON bodies does not apply."""
    is_long: bool = False
    """True if the handler may take minutes."""

    @property
    def path_names(self) -> tuple[str, ...]:
        """Names of the ids in the path."""
        return tuple(_NAMES.findall(self.path))

    @property
    def name(self) -> str:
        """Name of the operation, such as `create_memory`."""
        return self.handler.__name__
