"""Pages of the console. Each module has the pages for one kind of object."""

from __future__ import annotations

from retentive.console.pages import (
    administration,
    editing,
    history,
    memory,
    removal,
    review,
    search,
    settings,
    stores,
    tree,
    undo,
)
from retentive.console.visits import PageRoute

PAGES: tuple[PageRoute, ...] = (
    *stores.page,
    *tree.page,
    *memory.page,
    *history.page,
    *search.page,
    *editing.page,
    *undo.page,
    *review.page,
    *removal.page,
    *settings.page,
    *administration.page,
)
"""All pages and actions. Each one needs the scope that the same operation needs in the HTTP API."""
