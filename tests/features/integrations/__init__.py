"""Tests of the integrations with SDKs and agent frameworks."""
