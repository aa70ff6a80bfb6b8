"""Pages of the console. Each module has the pages for one kind of object; importing it adds them to `PAGES`."""

from __future__ import annotations

from retentive.console.pages import (  # noqa: F401 - each adds its pages
    administration,
    clients,
    editing,
    history,
    memory,
    people,
    removal,
    review,
    search,
    settings,
    stores,
    tree,
    undo,
)
from retentive.console.visits import PAGES

__all__ = ["PAGES"]
