"""Memory stores as plain files that a person can open and edit, over a SQLite backend. Linux and macOS."""

from retentive.storage.files.backend import DirectoryBackend

__all__ = ["DirectoryBackend"]
