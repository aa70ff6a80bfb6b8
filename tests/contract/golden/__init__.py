"""Transcripts that read as documentation, run through every integration."""
