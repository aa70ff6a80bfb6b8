"""What we test with, shipped so that others can test their own backends and agents with it.

Each module is imported by its own name; this package imports none of them.
"""
