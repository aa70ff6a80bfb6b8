"""Encryption at rest over any backend."""
