"""Trust in memories: levels by provenance, hidden memories, confirmations, and flags for instructions."""
