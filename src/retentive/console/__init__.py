"""Web console: pages for people who look after what agents remember. docs/console.md describes it."""
