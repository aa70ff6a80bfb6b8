"""Processes beside one another, as far as the histories of `contract.linearizability` have no such thing."""
