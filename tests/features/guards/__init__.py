"""Guards: rules by which a memory store refuses, alters or postpones changes."""
