"""Handlers of the routes, by the objects they serve."""
