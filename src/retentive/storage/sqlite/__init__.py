"""SQLite backend: memory stores in one file or in memory."""

from retentive.storage.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
