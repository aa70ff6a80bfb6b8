"""Transcripts of commands and replies that also serve as documentation. Every integration must produce them."""
