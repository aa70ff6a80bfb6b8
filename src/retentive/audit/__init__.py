"""Audit log of a memory store: a hash chain with one entry for each operation.

The entry of a change is written in the same transaction as the change.
"""
