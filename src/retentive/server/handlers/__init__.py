"""Routes of the API. Each module has the routes of one kind of object."""

from __future__ import annotations

from itertools import chain

from retentive.server.calls import Route
from retentive.server.handlers import access, dreams, history, memories, people, stores

ROUTES: tuple[Route, ...] = tuple(
    chain.from_iterable(each.route for each in (stores, memories, access, people, history, dreams))
)
