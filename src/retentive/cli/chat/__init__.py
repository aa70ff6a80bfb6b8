"""The interactive chat of the command line."""
