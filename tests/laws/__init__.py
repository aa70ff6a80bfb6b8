"""Laws for every text, path and command, tested with hypothesis."""
