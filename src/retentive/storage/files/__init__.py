"""Directory backend: memories as plain files that people can edit, with a SQLite database. Linux and macOS."""

from retentive.storage.files.backend import DirectoryBackend

__all__ = ["DirectoryBackend"]
