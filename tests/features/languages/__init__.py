"""Tests of the handlers in other languages."""
