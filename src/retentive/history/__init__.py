"""History of a memory store: log, diff, blame, restore, undo, redact, erase and expiry."""

from retentive.history.history import History

__all__ = ["History"]
