"""The demo of the command line."""
