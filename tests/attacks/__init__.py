"""Hostile or broken callers, and hostile files on disk."""
