"""History of a memory store: log, diff, blame, restore, undo, redact, erase and expiry."""

from retentive.history.history import History
from retentive.history.reads import LogFilter

__all__ = ["History", "LogFilter"]
