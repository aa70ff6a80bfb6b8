"""Laws: what holds for every text, path and command, looked for by hypothesis."""
