"""Cases and hypothesis laws of the pure functions and of the engine."""
