"""Routes of the API. Each module has the routes of one kind of object."""

from __future__ import annotations

from retentive.server.calls import Route
from retentive.server.handlers import access, dreams, history, memories, people, stores

ROUTES: tuple[Route, ...] = (
    *stores.route,
    *memories.route,
    *access.route,
    *people.route,
    *history.route,
    *dreams.route,
)
