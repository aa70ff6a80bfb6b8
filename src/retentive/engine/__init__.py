"""Engine: runs operations on one memory store (handlers, guarded writer, idempotency, queries, access times)."""
