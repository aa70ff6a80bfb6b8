"""Faults between client and server: connections cut, slow, or silent, above all at the moment of a commit."""
