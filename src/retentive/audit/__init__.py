"""The audit log of a memory store: one hash chain of entries, written with the changes they describe."""
