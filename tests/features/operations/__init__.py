"""What holds for every operation, through every door: one table of both, and a module for each property."""
