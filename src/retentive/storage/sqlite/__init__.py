"""SQLite backend: memory stores in one file or in memory. A `CommitObserver` can do more work at each commit."""

from retentive.storage.sqlite.backend import CommitObserver, SqliteBackend

__all__ = ["CommitObserver", "SqliteBackend"]
