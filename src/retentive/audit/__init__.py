"""Audit log of a memory store: a hash chain of entries. Each entry is written in the transaction of its operation."""
