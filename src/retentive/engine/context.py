"""Old name of the core of a memory store."""

from __future__ import annotations

from retentive.engine.core import StoreCore as StoreContext
from retentive.engine.core import StoreOptions

__all__ = ["StoreContext", "StoreOptions"]
