"""Runs operations on one memory store: handlers, the guarded writer, idempotency, queries, access times."""
