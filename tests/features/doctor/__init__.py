"""Checks of intact locations, and of locations that the tests damaged."""
