"""Engine: operations on one memory store (command handlers, guarded writer, idempotency, queries, access times)."""
