"""Routes of the API. Each module has the routes of one kind of object."""

from __future__ import annotations

from retentive.server.handlers import (
    administration,
    commands,
    history,
    keys,
    memories,
    review,
    stores,
    transfers,
    versions,
    webhooks,
)
from retentive.server.route import Route

ROUTES: tuple[Route, ...] = (
    *stores.route,
    *memories.route,
    *keys.route,
    *versions.route,
    *history.route,
    *review.route,
    *commands.route,
    *administration.route,
    *transfers.route,
    *webhooks.route,
)
