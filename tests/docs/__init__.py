"""The documentation is true: its examples run, its words are those of the code, its links lead somewhere."""
