"""Directory backend: memories as plain files that can be edited, on top of a SQLite backend. Linux and macOS."""

from retentive.storage.files.backend import DirectoryBackend

__all__ = ["DirectoryBackend"]
