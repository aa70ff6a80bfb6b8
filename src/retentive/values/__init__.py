"""Values and pure functions: paths, patterns, settings, commands, replies, text, diffs, records. No I/O."""
