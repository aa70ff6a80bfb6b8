"""Ways in. A door translates; rules live in the engine."""
