"""Audit log of a memory store: a chain of hashed entries, each written in the transaction of the change."""
