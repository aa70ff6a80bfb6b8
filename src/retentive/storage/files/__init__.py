"""Directory backend: memories as plain, editable files on top of a SQLite backend. Linux and macOS."""

from retentive.storage.files.backend import DirectoryBackend

__all__ = ["DirectoryBackend"]
