"""The ways in for the official SDK and for own loops."""
