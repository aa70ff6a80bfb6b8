"""Tests with an agent in them: a client, its tool loop, and a scripted Claude."""
