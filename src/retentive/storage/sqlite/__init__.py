"""Memory stores in one SQLite file."""
