"""Guards: what a memory store does not let pass."""
