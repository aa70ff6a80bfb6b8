"""Equivalence of all backends and integrations: the suite, the state machine, transcripts and linearizability."""
