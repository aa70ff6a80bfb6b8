"""Moving memories: export, import, backup, restoring and migration. The format of the files: docs/moving.md."""
