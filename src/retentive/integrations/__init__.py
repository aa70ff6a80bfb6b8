"""Integrations with SDKs and agent frameworks. They only translate calls and replies; the engine enforces all rules."""
