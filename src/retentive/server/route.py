"""A row of the table of routes. Routing, checks of fields, scopes and the OpenAPI document use the table."""

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
    """One route. The key needs one of its `scopes`. The handler gets the `Call` and an argument for each field.

    `answer` names the schema of the answer; `list:` means pages of objects, `stream:` media types.
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
    """Media types of a body that is a file. It is streamed, and no limit of JSON bodies applies to it."""
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
