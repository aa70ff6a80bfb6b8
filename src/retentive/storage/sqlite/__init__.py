"""Memory stores in one SQLite file, or in memory. Copies elsewhere can follow its commits (`CommitObserver`)."""

from retentive.storage.sqlite.backend import SqliteBackend
from retentive.storage.sqlite.observer import CommitObserver

__all__ = ["CommitObserver", "SqliteBackend"]
