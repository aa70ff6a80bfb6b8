"""Kinds of records that are copied together with a memory store. Each new kind gets a line here."""

from __future__ import annotations

RECORD_KINDS: tuple[str, ...] = (
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
SIDE_RECORD_KINDS: tuple[str, ...] = ("accessed",)
"""Kinds of `Backend.put_side_records`."""
