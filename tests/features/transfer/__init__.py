"""Exports, imports, backups and migrations."""
