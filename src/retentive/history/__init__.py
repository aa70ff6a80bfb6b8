"""History of a memory store: log, diff, blame, restore, undo, redact, erase and expiry."""
