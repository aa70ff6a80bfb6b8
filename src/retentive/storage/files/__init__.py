"""Directory backend: stores memories as plain files that people can edit, and uses SQLite. Linux and macOS."""

from retentive.storage.files.backend import DirectoryBackend

__all__ = ["DirectoryBackend"]
