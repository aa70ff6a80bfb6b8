"""Audit log of a memory store: a hash chain of entries, written in the transactions of the changes they describe."""
