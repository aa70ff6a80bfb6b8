"""Memories on their way in and out."""
