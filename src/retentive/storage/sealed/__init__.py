"""Encryption layer that wraps any backend."""
