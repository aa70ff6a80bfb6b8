"""Exports, imports, backups, restores and migrations of memory stores. docs/moving.md describes the file format."""
