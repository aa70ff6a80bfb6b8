"""Handlers of the routes. Each module has the handlers of one kind of object."""
