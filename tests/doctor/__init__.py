"""Examining places that are whole, and places that were broken by hand."""
