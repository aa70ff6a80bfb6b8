"""Trust in memories: trust levels by provenance, hidden memories and confirmations."""
