"""Memory stores as plain files that a person can open and edit."""
