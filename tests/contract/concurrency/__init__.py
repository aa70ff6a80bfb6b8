"""Concurrent threads and processes on one memory store: no acknowledged edit is lost."""
