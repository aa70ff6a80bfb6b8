"""Export, import, backup, restore and migration of memory stores. docs/moving.md describes the file format."""
