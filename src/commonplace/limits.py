"""The limits of what one command may show or write."""

from __future__ import annotations

from dataclasses import dataclass, fields

from commonplace.errors import InvalidInput

DEFAULT_VIEW_CHARS = 16_000  # where the text view of the tool is said to be cut
DEFAULT_LIST_ROWS = 1_000
DEFAULT_MAX_MEMORY_BYTES = 102_400  # the limit of the hosted memory stores


@dataclass(frozen=True, slots=True)
class Limits:
    """Characters per view, rows per listing, bytes per memory; 0 = none.

    `create_overwrites` makes `create` replace an existing memory. Raises `InvalidInput` for anything else than
    whole numbers from 0.
    """

    view_chars: int = DEFAULT_VIEW_CHARS
    list_rows: int = DEFAULT_LIST_ROWS
    max_memory_bytes: int = DEFAULT_MAX_MEMORY_BYTES
    create_overwrites: bool = False

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            wanted = bool if spec.name == "create_overwrites" else int
            if type(value) is not wanted or value < 0:
                right = "True or False" if wanted is bool else "a whole number from 0 (0 = no limit)"
                raise InvalidInput(f"{spec.name} must be {right}")
