"""Kinds of the small records that go with a memory store wherever it goes. A new kind gets a line here."""

from __future__ import annotations

NOTE_KINDS: tuple[str, ...] = (
    "audit",
    "audit.detail",
    "audit.head",
    "erasing",
    "history",
    "proposal",
    "proposal.after",
    "proposal.before",
    "removal",
    "idempotency",
    "reviewed",
    "swept",
    "tombstone",
)
"""Kinds of `Transaction.put_record`."""
JOTTING_KINDS: tuple[str, ...] = ("accessed",)
"""Kinds of `Backend.put_side_records`."""
