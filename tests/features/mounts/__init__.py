"""Several memory stores as one tree."""
