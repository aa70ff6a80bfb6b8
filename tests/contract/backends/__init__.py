"""The shipped backend suite, run for every backend."""
