"""Integrations with frameworks that need an environment of their own: `make test-frameworks`."""
