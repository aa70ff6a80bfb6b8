"""Transcripts that read as documentation, run through every door."""
