"""Detection and redaction of sensitive values in text. Pure: nothing here does I/O or stores text."""
