"""Memory stores in object storage."""
