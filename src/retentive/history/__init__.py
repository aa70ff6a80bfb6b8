"""The history of a memory store: what was, who did it, and how to have it back."""

from retentive.history.history import History

__all__ = ["History"]
