"""Tests that run an agent: a client, its tool loop and a scripted Claude."""
