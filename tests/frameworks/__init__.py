"""Integrations with frameworks that need an environment of their own: `make check NAME=frameworks`."""
