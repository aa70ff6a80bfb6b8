"""The documentation is correct: its examples run, its names match the code, and its links resolve."""
