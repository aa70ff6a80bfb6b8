"""State machine that runs the same commands on every backend and on a model."""
