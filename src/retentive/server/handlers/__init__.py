"""Routes of the API. Each module has the routes of one kind of object."""

from __future__ import annotations

from retentive.server.handlers import (
    administration,
    commands,
    events,
    history,
    keys,
    memories,
    review,
    search,
    stores,
    transfers,
    trust,
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
    *search.route,
    *commands.route,
    *events.route,
    *administration.route,
    *transfers.route,
    *trust.route,
    *webhooks.route,
)
