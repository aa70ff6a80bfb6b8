"""Trust in memories: trust levels by provenance, hidden memories, confirmations, and flags for instructions."""
