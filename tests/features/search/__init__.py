"""Search of a store in use: what it may show, what it must find, and when."""
