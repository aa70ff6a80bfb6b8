"""Detection and redaction of sensitive values in text. Nothing here does I/O or stores text."""
