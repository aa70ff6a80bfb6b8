"""Table of all routes. `server/route.py` describes its rows."""

from __future__ import annotations

from retentive.server.route import Route
from retentive.server.table.history import HISTORY_ROUTES, REVIEW_ROUTES, VERSION_ROUTES
from retentive.server.table.keys import KEY_ROUTES
from retentive.server.table.stores import PLACE_ROUTES
from retentive.server.table.transfers import TRANSFER_ROUTES
from retentive.server.table.trust import TRUST_ROUTES
from retentive.server.table.webhooks import WEBHOOK_ROUTES
from retentive.server.table.work import STORE_ROUTES

ROUTES: tuple[Route, ...] = (
    *PLACE_ROUTES,
    *KEY_ROUTES,
    *VERSION_ROUTES,
    *HISTORY_ROUTES,
    *REVIEW_ROUTES,
    *STORE_ROUTES,
    *TRANSFER_ROUTES,
    *TRUST_ROUTES,
    *WEBHOOK_ROUTES,
)
