"""SQLite backend: memory stores in one file or in memory. A `CommitObserver` can follow its commits."""

from retentive.storage.sqlite.backend import SqliteBackend
from retentive.storage.sqlite.observer import CommitObserver

__all__ = ["CommitObserver", "SqliteBackend"]
