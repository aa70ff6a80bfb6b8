"""Checks of undamaged locations, and of locations with damage that the tests caused."""
