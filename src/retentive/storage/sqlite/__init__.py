"""SQLite backend: memory stores in one file or in memory. A `CommitObserver` can react to the commits of a backend."""

from retentive.storage.sqlite.backend import CommitObserver, SqliteBackend

__all__ = ["CommitObserver", "SqliteBackend"]
