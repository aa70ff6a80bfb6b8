"""Judged questions over memories in five languages, and measurements of the quality and speed of search."""
