"""Test tools for your own backends and agents: a backend test suite and a scripted Claude.

Import the modules directly; this package does not import them.
"""
