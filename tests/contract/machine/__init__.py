"""A state machine that drives every backend at once beside a model."""
