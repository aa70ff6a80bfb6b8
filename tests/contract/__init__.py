"""Equality of the backends and integrations: the suite, the state machine, transcripts, linearizability."""
