"""Web console: pages for people who inspect and manage the memories of agents (docs/server.md)."""
