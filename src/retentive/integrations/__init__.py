"""Integrations with SDKs and agent frameworks. They translate calls and replies; all rules are in the engine."""
