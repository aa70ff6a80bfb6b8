"""`retentive hook`: answers the hooks of the Claude Code plugin (`plugins/retentive`)."""
