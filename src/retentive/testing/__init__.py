"""Test tools for your own backends and agents: a backend test suite and a scripted Claude.

Import each module by its own name; this package does not import them.
"""
