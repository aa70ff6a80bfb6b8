"""Guards: changes that a memory store refuses, alters or defers."""
