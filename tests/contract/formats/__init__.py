"""Stores and archives of each format, as they were written then: later versions read them and write on."""
